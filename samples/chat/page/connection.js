// A WebSocket that connects again by itself, later and later if that fails, and at a random moment:
// when a server starts again, its clients must not all come at once.

const shortest = 500, longest = 15_000; // milliseconds between two attempts
const busy = 8_000;                     // the least pause after the server was full

// No event tells that a network is gone. So after some silence we ask the server whether it is
// there. If it does not answer that, or a message, in time, we give up the connection.
const silence = 20_000, patience = 8_000;

// Close codes after which it is of no use to try again (RFC 6455, section 7.4.1).
const final = new Set([1003, 1007, 1008, 1009]);
const tryLater = 1013;

// Connection dispatches "frame" (detail: what the server has sent, parsed) and "state" (detail:
// {state, ...}):
//   connecting
//   open
//   waiting   until: when the next attempt is made, in milliseconds as of Date.now();
//             reason: the server's, if it gave one
//   refused   reason: the server's; joined: whether it had let us in before
export class Connection extends EventTarget {
	#address;
	#socket = null;
	#timer = 0;     // of the next attempt
	#failures = 0;
	#joined = false;
	#heard = 0;     // when the server has last sent something
	#awaited = 0;   // since when we wait for an answer; 0: we do not
	#alarm = 0;     // of the next look at heard and awaited

	// address returns the URL for the next connection.
	constructor(address) {
		super();
		this.#address = address;
		addEventListener("offline", () => this.#socket && this.#ended(0, ""));
		// After a change of network a socket may be dead without an event: begin anew.
		addEventListener("online", () => (this.#timer || this.open) && this.connect());
		document.addEventListener("visibilitychange", () => {
			if (document.hidden) return;
			if (this.#timer) this.connect();
			else if (this.open) this.#watch();
		});
	}

	get idle() { return !this.#socket && !this.#timer; }
	get open() { return this.#joined && this.#socket?.readyState === WebSocket.OPEN; }

	// send hands value to the network, which does not mean that it arrives. answered says that the
	// server answers it.
	send(value, answered) {
		this.#socket.send(JSON.stringify(value));
		if (answered && !this.#awaited) {
			this.#awaited = Date.now();
			this.#watch();
		}
	}

	// answered notes that the server has answered what was sent; more says that it has still
	// something to answer.
	answered(more) {
		this.#awaited = more ? Date.now() : 0;
	}

	// connect begins, or begins anew.
	connect() {
		this.#drop();
		this.#state("connecting");
		this.#heard = this.#awaited = Date.now(); // it must open in time, too
		this.#watch();
		const socket = this.#socket = new WebSocket(this.#address());
		socket.onmessage = ({ data }) => {
			if (socket !== this.#socket) return;
			this.#heard = Date.now();
			if (!this.#joined) {
				this.#joined = true;
				this.#failures = this.#awaited = 0;
				this.#state("open");
			}
			this.dispatchEvent(new CustomEvent("frame", { detail: JSON.parse(data) }));
		};
		socket.onclose = ({ code, reason }) => socket === this.#socket && this.#ended(code, reason);
	}

	// watch checks now whether the server has been silent for too long, and again when it may have
	// been.
	#watch() {
		clearTimeout(this.#alarm);
		const now = Date.now();
		if (this.#awaited && now - this.#awaited >= patience) {
			this.#ended(0, "");
			return;
		}
		if (this.#joined && !this.#awaited && now - this.#heard >= silence) {
			this.#awaited = now;
			this.#socket.send(`{"type":"ping"}`);
		}
		const next = this.#awaited ? this.#awaited + patience : this.#heard + silence;
		this.#alarm = setTimeout(() => this.#watch(), next - now);
	}

	// drop forgets the socket, if there is one, and the timers.
	#drop() {
		clearTimeout(this.#timer);
		clearTimeout(this.#alarm);
		this.#timer = 0;
		this.#joined = false;
		const socket = this.#socket;
		this.#socket = null;
		socket?.close();
	}

	#ended(code, reason) {
		const joined = this.#joined;
		this.#drop();
		if (final.has(code)) {
			this.#state("refused", { reason: reason || `closed with code ${code}`, joined });
			return;
		}
		let delay = Math.min(longest, shortest * 2 ** this.#failures++) * (0.5 + Math.random() / 2);
		if (code === tryLater) delay += busy;
		else reason = "";
		this.#timer = setTimeout(() => this.connect(), delay);
		this.#state("waiting", { until: Date.now() + delay, reason });
	}

	#state(state, more) {
		this.dispatchEvent(new CustomEvent("state", { detail: { state, ...more } }));
	}
}
