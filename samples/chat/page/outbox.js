// What we have said and cannot be sure of. A message stays here until the server has acknowledged
// it. If the connection is lost before, the message is sent again over the next one: the server
// knows it by its id, and nobody gets it twice.

const atOnce = 8;        // unacknowledged messages, so that the server never has to hold more
const doubtful = 10_000; // milliseconds until an acknowledged message has surely reached the others
const showAnyway = 5000; // milliseconds until an acknowledged one that has not come back is shown

export const most = 100; // messages that may wait

// Outbox holds entries {id, text}. Those that wait survive a reload.
export class Outbox {
	#key;
	#entries = new Map(); // by id, in order; with sent, done (when it was acknowledged), shown
	#onStray;

	// onStray is called with an entry that was acknowledged, and that the server has not sent us.
	constructor(room, onStray) {
		this.#key = `chat.outbox.${room}`;
		this.#onStray = onStray;
		try {
			for (const { id, text } of JSON.parse(sessionStorage.getItem(this.#key)) ?? []) this.#entries.set(id, { id, text });
		} catch { /* then there are none */ }
	}

	// waiting returns the entries that are not shown among the messages yet.
	get waiting() { return [...this.#entries.values()].filter((e) => !e.shown); }

	// unanswered reports whether the server has still to acknowledge something.
	get unanswered() { return [...this.#entries.values()].some((e) => e.sent && !e.done); }

	add(text) {
		const entry = { id: newID(), text };
		this.#entries.set(entry.id, entry);
		this.#keep();
		return entry;
	}

	discard(id) {
		this.#entries.delete(id);
		this.#keep();
	}

	// due returns the entries to send now, and marks them as sent.
	due() {
		const open = [...this.#entries.values()].filter((e) => !e.done);
		const unsent = open.filter((e) => !e.sent);
		const due = unsent.slice(0, Math.max(0, atOnce - (open.length - unsent.length)));
		for (const e of due) e.sent = true;
		return due;
	}

	acknowledged(id) {
		const entry = this.#entries.get(id);
		if (!entry) return;
		this.#settle(entry);
		if (!entry.shown) {
			setTimeout(() => {
				if (!entry.shown && entry.done && this.#entries.has(id)) this.#onStray(entry);
			}, showAnyway);
		}
	}

	// seen notes that the server has sent us a message, ours or not.
	seen(id) {
		const entry = this.#entries.get(id);
		if (!entry) return;
		entry.shown = true;
		this.#settle(entry);
	}

	// lost notes that the connection is gone.
	lost() {
		this.#forget();
		for (const e of this.#entries.values()) {
			if (!e.done || !e.shown) e.sent = false, e.done = 0;
		}
	}

	// forgotten notes that the server remembers only messages with these ids, and none that we have
	// seen. It may have crashed before it told the others, so what we have said lately is sent
	// again.
	forgotten(ids) {
		for (const e of this.#entries.values()) {
			if (e.done && !ids.has(e.id)) e.sent = false, e.done = 0;
		}
	}

	#settle(entry) {
		entry.sent = true;
		entry.done ||= Date.now();
		this.#forget();
		this.#keep();
	}

	#forget() {
		for (const e of this.#entries.values()) {
			if (e.done && e.shown && Date.now() - e.done > doubtful) this.#entries.delete(e.id);
		}
	}

	#keep() {
		const left = [...this.#entries.values()].filter((e) => !e.done).map(({ id, text }) => ({ id, text }));
		try {
			if (left.length > 0) sessionStorage.setItem(this.#key, JSON.stringify(left));
			else sessionStorage.removeItem(this.#key);
		} catch { /* then they are lost with the page */ }
	}
}

// newID is random; crypto.randomUUID exists on secure pages only.
function newID() {
	return Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");
}
