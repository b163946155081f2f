// What was said, as a list that grows at its end, and at its beginning when the reader scrolls
// there. Whatever comes from others becomes text, never markup. It is drawn once a frame, however
// much arrives at a time.

import { avatar, drawing, element, paint, say } from "./draw.js";

const kept = 500;                 // messages while the end is in view; we can ask for older ones
const most = 3000;                // messages while the reader is further up
const atATime = 60;               // messages that one frame draws
const together = 5 * 60 * 1000;   // messages of one person within this time (ms) form one group
const gathering = 60 * 1000;      // people that come and go within this time share one line
const notices = 4;                // lines of the server that are kept
const atEnd = 40;                 // pixels from the end that still count as being there
const nearStart = 300;            // and from the beginning
const aloud = 1500;               // milliseconds between two announcements
const several = 3;                // messages that are announced word by word

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

export class Log {
	#box;
	#older;      // a button
	#list;
	#waiting;    // what is not sent yet, below the list
	#aloud;      // a live region: the list itself would announce old messages, too

	#ids = new Set();        // of the messages shown, or to be shown
	#queue = [];             // to be shown: {id of a message, make: returns its elements}
	#count = 0;              // messages shown
	#end = new Group();      // the messages at the end
	#movement = null;        // the line of people that come and go
	#notices = [];
	#unsent = new Map();     // id -> element
	#connected = false;
	#news = [];              // to be announced
	#complete = true;        // there are no messages before those shown
	#asking = false;
	#stay = true;            // the end is in view, and is kept in view
	#last = "";              // id of the message that came last
	#onOlder; #onUnseen;
	#draw = drawing(() => this.#redraw());
	unseen = 0;              // messages that have arrived below the view

	// onOlder is called with the id of the first message, when the reader wants those before it;
	// onUnseen, when unseen has changed.
	constructor(box, announcer, onOlder, onUnseen) {
		this.#box = box;
		this.#older = box.querySelector(".older");
		this.#list = box.querySelector(".list");
		this.#waiting = box.querySelector(".unsent");
		this.#aloud = announcer;
		this.#onOlder = onOlder;
		this.#onUnseen = onUnseen;
		this.#older.onclick = () => this.#ask();
		box.addEventListener("scroll", () => {
			this.#stay = box.scrollHeight - box.scrollTop - box.clientHeight < atEnd;
			if (this.#stay) this.#see(0);
			if (box.scrollTop < nearStart) this.#ask();
		}, { passive: true });
		const resized = new ResizeObserver(() => this.#stay && this.toEnd());
		resized.observe(box);
		resized.observe(this.#waiting);
	}

	me = "";

	// last is the id of the message that came last, "" if none did.
	get last() { return this.#last; }

	toEnd() {
		this.#stay = true;
		this.#box.scrollTop = this.#box.scrollHeight;
		this.#see(0);
	}

	// resized is called when the box may have changed its height for a moment, which scrolls it.
	resized() {
		if (this.#stay) this.toEnd();
	}

	// message takes in a message, and reports whether it is new.
	message(m, announced = true) {
		if (this.#ids.has(m.id)) return false;
		this.#ids.add(m.id);
		this.#last = m.id;
		if (announced && m.name !== this.me) this.#announce(m);
		this.#push(() => this.#entry(m, this.#end), m.id);
		return true;
	}

	// history takes in what was said before we came, or while we were away, and returns the
	// messages that are new.
	history({ messages, after, more }) {
		const missed = messages.filter((m) => !this.#ids.has(m.id));
		const first = this.#ids.size === 0;
		if (first) {
			this.#complete = !more;
			this.#draw();
		} else if (!after && missed.length > 0 && missed.length === messages.length) {
			this.#redraw();
			const head = this.#first;
			// Another process has remembered them.
			if (head && Date.parse(missed.at(-1).time) <= Date.parse(head.dataset.time)) {
				this.older({ messages, before: head.dataset.id, more });
				return [];
			}
			this.notice("Some messages from before may be missing here");
		}
		for (const m of missed) this.message(m, false);
		if (!first && missed.length > 0) this.#announce(...missed.filter((m) => m.name !== this.me));
		return first ? [] : missed;
	}

	// older takes in the page before a message, if that is still the first one.
	older({ messages, before, more }) {
		this.#asking = false;
		if (before !== this.#first?.dataset.id) {
			this.#draw();
			return;
		}
		this.#complete = !more;
		const start = new Group(), all = document.createDocumentFragment();
		for (const m of messages) {
			if (this.#ids.has(m.id)) continue;
			this.#ids.add(m.id);
			all.append(...this.#entry(m, start));
			this.#count++;
		}
		const head = this.#list.firstElementChild;
		if (head?.classList.contains("day") && head.textContent === start.day) head.remove();
		const fromEnd = this.#box.scrollHeight - this.#box.scrollTop;
		this.#list.prepend(all);
		this.#older.hidden = this.#complete;
		this.#box.scrollTop = this.#box.scrollHeight - fromEnd; // what was in view stays in view
	}

	// moved notes that a person has come, or gone. A person that does both gets no line.
	moved(name, comes) {
		const last = this.#movement;
		if (!last || Date.now() - last.since > gathering || last.drawn && !last.line.isConnected) {
			const movement = this.#movement = new Movement();
			this.#push(() => {
				movement.drawn = true;
				return [...this.#end.interrupted(new Date()), movement.line];
			});
		}
		this.#movement.note(name, comes);
		this.#draw();
	}

	// notice adds a line of the server. Only the last of these are kept, and each only once.
	notice(text, time) {
		this.#push(() => {
			const at = time ? new Date(time) : new Date();
			const line = element("p", "notice", text);
			line.title = full.format(at);
			const same = this.#notices.findIndex((n) => n.textContent === text);
			if (same >= 0) this.#notices.splice(same, 1)[0].remove();
			this.#notices.push(line);
			if (this.#notices.length > notices) this.#notices.shift().remove();
			return [...this.#end.interrupted(at), line];
		});
	}

	// unsent shows these entries of ours, and no others, as not sent yet. onDiscard is called with
	// the id of one that the reader discards.
	unsent(entries, onDiscard) {
		const ids = new Set(entries.map((e) => e.id));
		for (const [id, e] of this.#unsent) {
			if (ids.has(id)) continue;
			this.#unsent.delete(id);
			if (!this.#ids.has(id)) e.remove(); // else it goes when the message is drawn
		}
		for (const { id, text } of entries) {
			if (this.#unsent.has(id)) continue;
			const e = element("article", "message own waiting");
			const state = element("p", "state");
			const discard = element("button", "", "Discard");
			discard.type = "button";
			discard.onclick = () => onDiscard(id);
			state.append(element("span", "why", this.#whyUnsent), discard);
			e.append(element("span", "hidden", "You: "), body(text), state);
			e.dataset.unsent = id;
			this.#unsent.set(id, e);
			this.#waiting.append(e);
		}
		if (this.#stay) this.toEnd();
	}

	get #whyUnsent() { return this.#connected ? "Not sent yet" : "Waiting for the connection"; }

	// connected notes whether there is a connection. One that is gone takes the answer along that we
	// wait for.
	set connected(is) {
		this.#connected = is;
		if (!is) this.#asking = false;
		for (const e of this.#unsent.values()) say(e.querySelector(".why"), this.#whyUnsent);
	}

	get #first() { return this.#list.querySelector("[data-id]"); }

	#ask() {
		if (this.#complete || this.#asking || !this.#first) return;
		this.#asking = this.#onOlder(this.#first.dataset.id);
	}

	#push(make, id) {
		this.#queue.push({ make, id });
		this.#draw();
	}

	// redraw shows what has arrived. While the page is hidden, it leaves out what trim would remove
	// at once.
	#redraw() {
		const limit = this.#stay || document.hidden ? kept : most;
		if (this.#queue.length > limit) this.#skip(this.#queue.length - limit);
		const now = this.#queue.splice(0, document.hidden ? limit : atATime);
		const all = document.createDocumentFragment();
		let own = false;
		for (const { make } of now) {
			for (const e of make()) {
				all.append(e);
				const id = e.dataset.id;
				if (!id) continue;
				this.#count++;
				own ||= e.classList.contains("own");
				if (!this.#stay && !e.classList.contains("own")) this.unseen++;
			}
		}
		this.#movement?.show();
		this.#list.append(all);
		if (this.#count > limit) this.#trim(limit);
		this.#older.hidden = this.#complete;
		if (this.#stay || own) this.toEnd();
		else this.#onUnseen();
		if (this.#queue.length > 0) this.#draw();
	}

	// skip leaves out the oldest of the queue, and removes all that are shown: else there would be
	// a gap.
	#skip(n) {
		for (const { id } of this.#queue.splice(0, n)) {
			if (!id) continue;
			this.#ids.delete(id);
			this.#arrived(id);
		}
		for (const e of this.#list.querySelectorAll("[data-id]")) this.#ids.delete(e.dataset.id);
		this.#list.replaceChildren();
		this.#count = 0;
		this.#end = new Group();
		this.#movement = null;
		this.#complete = false;
	}

	// trim removes the oldest messages, and the lines between them.
	#trim(limit) {
		const before = this.#box.scrollHeight;
		while (this.#count > limit) {
			const oldest = this.#list.firstElementChild;
			if (oldest.dataset.id) {
				this.#ids.delete(oldest.dataset.id);
				this.#count--;
			}
			oldest.remove();
		}
		this.#complete = false;
		if (!this.#stay) this.#box.scrollTop -= before - this.#box.scrollHeight;
	}

	// arrived removes a message from those that are not sent yet.
	#arrived(id) {
		this.#waiting.querySelector(`[data-unsent="${CSS.escape(id)}"]`)?.remove();
	}

	// entry returns the elements of a message, the last of a group.
	#entry({ id, name, text, time }, group) {
		this.#arrived(id);
		const at = new Date(time), own = name === this.me;
		const elements = group.dated(at);
		const first = group.name !== name || at - group.time > together;
		group.name = name;
		group.time = at;

		const entry = element("article", `message${own ? " own" : ""}${first ? " first" : ""}`);
		entry.dataset.id = id;
		entry.dataset.time = time;
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
		const said = body(text);
		said.title = full.format(at);
		entry.append(said);
		elements.push(entry);
		return elements;
	}

	#see(unseen) {
		if (this.unseen === unseen) return;
		this.unseen = unseen;
		this.#onUnseen();
	}

	// announce makes screen readers read the messages, or only their number: a crowd writes faster
	// than a voice reads.
	#announce(...messages) {
		if (this.#news.length === 0 && messages.length > 0) {
			setTimeout(() => {
				const news = this.#news.splice(0);
				const text = news.length <= several ? news.map(({ name, text }) => `${name}: ${text}`).join("\n") : `${news.length} new messages`;
				this.#aloud.replaceChildren(text); // and not say: the same text may come again
			}, aloud);
		}
		this.#news.push(...messages);
	}
}

// Group is what the next message follows.
class Group {
	name = null;
	time = null;
	day = "";

	// dated returns a line with the day, if that has changed.
	dated(at) {
		const name = day.format(at);
		if (name === this.#name) return [];
		this.#name = name;
		this.day = name === day.format(new Date()) ? "Today" : name;
		this.name = null;
		return [element("p", "day", this.day)];
	}

	// interrupted is dated for a line that is not a message.
	interrupted(at) {
		const lines = this.dated(at);
		this.name = null;
		return lines;
	}

	#name = "";
}

// Movement is a line that says who has come and who has gone since it began.
class Movement {
	line = element("p", "notice");
	since = Date.now();
	drawn = false;
	#came = new Set();
	#went = new Set();
	#changed = true;

	constructor() {
		this.line.title = full.format(new Date());
	}

	note(name, comes) {
		const [to, from] = comes ? [this.#came, this.#went] : [this.#went, this.#came];
		if (!from.delete(name)) to.add(name);
		this.#changed = true;
	}

	show() {
		if (!this.#changed) return;
		this.#changed = false;
		const parts = [];
		if (this.#came.size > 0) parts.push(`${list(this.#came)} joined`);
		if (this.#went.size > 0) parts.push(`${list(this.#went)} left`);
		this.line.textContent = parts.join(", ");
		this.line.hidden = parts.length === 0;
	}
}

// list names some people, and counts the others.
function list(names) {
	const some = [];
	for (const name of names) {
		if (some.push(name) === (names.size > 4 ? 3 : 4)) break;
	}
	const others = names.size - some.length;
	if (others > 0) return `${some.join(", ")} and ${others} others have`;
	return some.length === 1 ? `${some[0]} has` : `${some.slice(0, -1).join(", ")} and ${some.at(-1)} have`;
}

function body(text) {
	const e = element("p", "text");
	e.dir = "auto";
	e.append(...linked(text));
	return e;
}

function stamp(at) {
	const e = element("time", "", clock.format(at));
	e.dateTime = at.toISOString();
	e.title = full.format(at);
	return e;
}

// linked is text with its web addresses as links; only http and https become links.
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
