// Who is here, as a list. Only the rows in view are drawn: there may be thousands.

import { avatar, drawing, element } from "./draw.js";

const around = 8; // rows drawn above and below what is in view

const { compare } = new Intl.Collator();

export class People {
	#box;
	#names = []; // sorted, without me
	#me = "";
	#row = 36;   // height of a row in pixels, until one can be measured
	#draw = drawing(() => this.#redraw());

	constructor(box) {
		this.#box = box;
		box.addEventListener("scroll", this.#draw, { passive: true });
		new ResizeObserver(this.#draw).observe(box);
	}

	get names() { return this.#me ? [this.#me, ...this.#names] : this.#names; }

	get count() { return this.#names.length + (this.#me ? 1 : 0); }

	// set takes the names of all who are here, and which of them is me.
	set(names, me) {
		this.#me = me;
		this.#names = names.filter((name) => name !== me).sort(order);
		this.#draw();
	}

	add(name) {
		const { at, there } = this.#find(name);
		if (there || name === this.#me) return;
		this.#names.splice(at, 0, name);
		this.#draw();
	}

	remove(name) {
		const { at, there } = this.#find(name);
		if (!there) return;
		this.#names.splice(at, 1);
		this.#draw();
	}

	#find(name) {
		let at = 0;
		for (let end = this.#names.length; at < end;) {
			const middle = (at + end) >>> 1;
			if (order(this.#names[middle], name) < 0) at = middle + 1;
			else end = middle;
		}
		return { at, there: this.#names[at] === name };
	}

	#redraw() {
		const all = this.count, shift = this.#me ? 1 : 0;
		const from = Math.max(0, Math.min(Math.floor(this.#box.scrollTop / this.#row), all) - around);
		const to = Math.min(all, from + Math.ceil(this.#box.clientHeight / this.#row) + 2 * around);
		const rows = [];
		for (let i = from; i < to; i++) {
			const name = i < shift ? this.#me : this.#names[i - shift];
			const item = element("li");
			item.setAttribute("aria-setsize", all);
			item.setAttribute("aria-posinset", i + 1);
			const text = element("span", "who", name);
			text.dir = "auto";
			item.append(avatar(name), text);
			if (i < shift) item.append(element("span", "you", "you"));
			rows.push(item);
		}
		if (rows.length > 0) { // space in place of the rows that are not drawn
			rows[0].style.marginTop = `${from * this.#row}px`;
			rows.at(-1).style.marginBottom = `${(all - to) * this.#row}px`;
		}
		this.#box.replaceChildren(...rows);
		this.#row = rows[0]?.getBoundingClientRect().height || this.#row;
	}
}

// order is that of the language; different names are never equal in it.
function order(a, b) {
	return compare(a, b) || (a < b ? -1 : a > b ? 1 : 0);
}
