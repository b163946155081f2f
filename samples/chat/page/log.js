// What was said, as a list that grows at its end. Whatever comes from others is put in as text, never as markup.

const kept = 500;                 // entries; older ones go
const together = 5 * 60 * 1000;   // messages of one person within this time, in milliseconds, are shown as one
const atEnd = 40;                 // pixels from the end that still count as being there

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

// element makes an element with a class and a text.
export function element(tag, className = "", text = "") {
	const e = document.createElement(tag);
	if (className) e.className = className;
	if (text) e.textContent = text;
	return e;
}

// avatar is the first letter of a name, on a colour that everybody sees it on.
export function avatar(name) {
	const e = element("span", "avatar", initial(name));
	e.setAttribute("aria-hidden", "true");
	paint(e, name);
	return e;
}

function initial(name) {
	const [first] = new Intl.Segmenter().segment(name);
	return first ? first.segment.toUpperCase() : "";
}

// paint gives e the hue of a name, from which the style sheet makes colours that can be read.
export function paint(e, name) {
	let hash = 2166136261; // FNV-1a
	for (const c of name) hash = Math.imul(hash ^ c.codePointAt(0), 16777619);
	e.style.setProperty("--hue", (hash >>> 8) % 360);
}

export class Log {
	#box;
	#me;
	#ids = new Set(); // of the messages shown
	#last = null;     // the last message: {name, time, own}
	#day = "";
	#onUnseen;
	#stay = true;     // at the end, and to stay there
	unseen = 0;       // messages that have come below what is in view

	// onUnseen is called when unseen has changed.
	constructor(box, onUnseen) {
		this.#box = box;
		this.#onUnseen = onUnseen;
		box.addEventListener("scroll", () => {
			this.#stay = box.scrollHeight - box.scrollTop - box.clientHeight < atEnd;
			if (this.#stay) this.#see(0);
		}, { passive: true });
		new ResizeObserver(() => this.#stay && this.toEnd()).observe(box);
	}

	set me(name) { this.#me = name; }

	toEnd() {
		this.#box.scrollTop = this.#box.scrollHeight;
		this.#see(0);
	}

	// history adds those messages that are not here yet: after a reconnection most are. A screen reader is not to read
	// all of them out.
	history(messages) {
		const missed = messages.filter((m) => !this.#ids.has(m.id));
		this.#box.setAttribute("aria-busy", "true");
		if (this.#ids.size > 0 && missed.length > 0 && missed.length === messages.length) {
			this.notice("Some messages from before may be missing here");
		}
		missed.forEach((m) => this.message(m));
		requestAnimationFrame(() => this.#box.removeAttribute("aria-busy"));
	}

	message({ id, name, text, time }) {
		if (this.#ids.has(id)) return;
		this.#ids.add(id);
		const at = new Date(time), own = name === this.#me;
		this.#newDay(at);
		const first = this.#last?.name !== name || at - this.#last.time > together;
		this.#last = { name, time: at };

		const entry = element("article", `message${own ? " own" : ""}${first ? " first" : ""}`);
		entry.dataset.id = id;
		if (first) {
			const head = element("p", "head");
			const author = element("b", own ? "hidden" : "author", own ? "You" : name);
			author.dir = "auto";
			paint(author, name);
			head.append(author, " ", stamp(at));
			if (!own) entry.append(avatar(name));
			entry.append(head);
		} else {
			entry.append(element("span", "hidden", own ? "You: " : `${name}: `));
		}
		const body = element("p", "text");
		body.dir = "auto";
		body.append(...linked(text));
		body.title = full.format(at);
		entry.append(body);
		this.#add(entry, own);
		if (!own && !this.#stay) this.#see(this.unseen + 1);
	}

	// notice adds a line that nobody has said.
	notice(text, time = new Date()) {
		const at = new Date(time);
		this.#newDay(at);
		this.#last = null;
		const line = element("p", "notice", text);
		line.title = full.format(at);
		this.#add(line, false);
	}

	#newDay(at) {
		const name = day.format(at);
		if (name === this.#day) return;
		this.#day = name;
		this.#last = null;
		this.#add(element("p", "day", name === day.format(new Date()) ? "Today" : name), false);
	}

	// add shows an entry, and stays at the end if the end was in view: whoever reads further up is not to lose the place.
	#add(entry, own) {
		this.#box.append(entry);
		while (this.#box.childElementCount > kept) {
			const oldest = this.#box.firstElementChild;
			const height = this.#box.scrollHeight;
			this.#ids.delete(oldest.dataset.id);
			oldest.remove();
			if (!this.#stay) this.#box.scrollTop -= height - this.#box.scrollHeight;
		}
		if (this.#stay || own) this.toEnd();
	}

	#see(unseen) {
		if (this.unseen === unseen) return;
		this.unseen = unseen;
		this.#onUnseen();
	}
}

function stamp(at) {
	const e = element("time", "", clock.format(at));
	e.dateTime = at.toISOString();
	e.title = full.format(at);
	return e;
}

// linked is text with its web addresses as links. Nothing but http and https becomes one.
function* linked(text) {
	let from = 0;
	for (const { 0: address, index } of text.matchAll(/\bhttps?:\/\/[^\s<>"]*[^\s<>".,;:!?'()[\]{}]/gi)) {
		if (index > from) yield text.slice(from, index);
		const a = element("a", "", address);
		a.href = address;
		a.target = "_blank";
		a.rel = "noopener noreferrer nofollow ugc";
		yield a;
		from = index + address.length;
	}
	if (from < text.length) yield text.slice(from);
}
