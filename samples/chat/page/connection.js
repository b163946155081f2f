// A WebSocket that comes back by itself, later and later where it fails, and never at the same moment as everybody
// else's: when a server starts again, its clients must not all come at once.

const shortest = 500, longest = 15_000; // milliseconds

// Close codes with which the server says that trying again would be no use (RFC 6455, section 7.4.1).
const final = new Set([1003, 1007, 1008, 1009]);

// Connection dispatches "frame" (detail: what the server has sent, parsed) and "state" (detail: {state, ...}):
//   connecting
//   open
//   waiting   until: when the next attempt is made, in milliseconds as of Date.now()
//   refused   reason: the server's; joined: whether it had let us in before
export class Connection extends EventTarget {
	#url;
	#socket = null;
	#timer = 0;
	#failures = 0;
	#joined = false;

	constructor() {
		super();
		// After a change of network nobody tells a socket that it is dead, for minutes: begin anew.
		addEventListener("online", () => (this.#timer || this.open) && this.connect(this.#url));
		document.addEventListener("visibilitychange", () => !document.hidden && this.#timer && this.connect(this.#url));
	}

	get idle() { return !this.#socket && !this.#timer; }
	get open() { return this.#socket?.readyState === WebSocket.OPEN; }

	// send reports whether value was handed to the network, which does not mean that it arrives.
	send(value) {
		if (!this.open) return false;
		this.#socket.send(JSON.stringify(value));
		return true;
	}

	// connect begins, or begins anew.
	connect(url) {
		clearTimeout(this.#timer);
		this.#timer = 0;
		this.#url = url;
		this.#joined = false;
		this.#socket?.close();
		this.#state("connecting");
		const socket = this.#socket = new WebSocket(url);
		socket.onmessage = ({ data }) => {
			if (socket !== this.#socket) return;
			if (!this.#joined) {
				this.#joined = true;
				this.#failures = 0;
				this.#state("open");
			}
			this.dispatchEvent(new CustomEvent("frame", { detail: JSON.parse(data) }));
		};
		socket.onclose = ({ code, reason }) => {
			if (socket !== this.#socket) return;
			this.#socket = null;
			const joined = this.#joined;
			this.#joined = false;
			if (final.has(code)) {
				this.#state("refused", { reason: reason || `closed with code ${code}`, joined });
				return;
			}
			const delay = Math.min(longest, shortest * 2 ** this.#failures++) * (0.5 + Math.random() / 2);
			this.#timer = setTimeout(() => this.connect(url), delay);
			this.#state("waiting", { until: Date.now() + delay });
		};
	}

	#state(state, more) {
		this.dispatchEvent(new CustomEvent("state", { detail: { state, ...more } }));
	}
}
