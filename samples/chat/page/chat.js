// The page: who is here, what is said, and the state of the connection. ../README.md describes the
// protocol.

import { Connection } from "./connection.js";
import { drawing, element, say } from "./draw.js";
import { Log } from "./log.js";
import { Outbox, most } from "./outbox.js";
import { People } from "./people.js";

const $ = (id) => document.getElementById(id);
const typingEvery = 3000; // milliseconds between two frames that say that we are typing
const typingFor = 5000;   // how long a person counts as typing after such a frame

const lobby = "lobby";
const room = new URLSearchParams(location.search).get("room")?.trim().normalize() || lobby;
const connection = new Connection(address);
const log = new Log($("log"), $("aloud"), (before) => connection.open && (connection.send({ type: "older", before }, true), true), showUnseen);
const people = new People($("people"));
const outbox = new Outbox(room, (entry) => frames.message({ ...entry, name: me, time: new Date().toISOString() }));

let me = recall("name", "");
let known = "";           // the name under which the server has let us in
let here = false;         // the server has said over this connection who is here
let typing = new Map();   // name -> timer
let typed = 0;            // when we last said that we are typing
let unread = 0;           // messages that have arrived while the page was hidden

// ---- What the server sends

const frames = {
	history(h) {
		const { name, messages = [], after } = h;
		known = log.me = me = name;
		keep("name", me);
		say($("me"), me);
		const missed = log.history({ ...h, messages });
		for (const { id } of messages) outbox.seen(id);
		if (!after) outbox.forgotten(new Set(messages.map((m) => m.id)));
		if (messages.length > 0) $("empty").hidden = true;
		count(missed);
		showUnsent();
		pump();
	},
	older(o) {
		connection.answered(outbox.unanswered);
		log.older({ ...o, messages: o.messages ?? [] });
	},
	presence({ names = [] }) {
		if (here) { // we were here before, and have missed notices of people that come and go
			const before = new Set(people.names), now = new Set(names);
			for (const name of now) if (!before.has(name)) log.moved(name, true);
			for (const name of before) if (!now.has(name)) log.moved(name, false);
		}
		here = true;
		people.set(names, me);
		showCount();
	},
	message(m) {
		$("empty").hidden = true;
		outbox.seen(m.id);
		if (log.message(m)) count([m]);
		stopsTyping(m.name);
		if (m.name === me) showUnsent();
	},
	ack({ id }) {
		outbox.acknowledged(id);
		connection.answered(outbox.unanswered);
		pump();
	},
	pong() {
		connection.answered(outbox.unanswered);
	},
	join({ names }) {
		for (const name of names) {
			people.add(name);
			if (name !== me) log.moved(name, true);
		}
		showCount();
	},
	leave({ names }) {
		for (const name of names) {
			people.remove(name);
			stopsTyping(name);
			log.moved(name, false);
		}
		showCount();
	},
	typing({ name }) {
		if (name === me) return;
		clearTimeout(typing.get(name));
		typing.set(name, setTimeout(stopsTyping, typingFor, name));
		showTyping();
	},
	notice({ text, time }) {
		log.notice(text, time);
	},
};

function stopsTyping(name) {
	clearTimeout(typing.get(name));
	if (typing.delete(name)) showTyping();
}

// count counts messages that the reader has not seen yet.
function count(messages) {
	if (document.hidden) showTitle(unread += messages.filter((m) => m.name !== me).length);
}

// ---- The connection

// address is the URL of the next connection. It names the last message that we have seen, so that
// the server sends what came after it.
function address() {
	const url = new URL("ws-chat", location.href);
	url.protocol = url.protocol.replace("http", "ws");
	url.search = new URLSearchParams({ room, name: me, after: log.last });
	return url;
}

connection.addEventListener("frame", ({ detail }) => frames[detail.type]?.(detail)); // if known
connection.addEventListener("state", ({ detail }) => showState(detail));

const states = { connecting: "Connecting", open: "Connected", waiting: "No connection", refused: "Disconnected" };
let countdown = 0;

function showState({ state, until, reason, joined }) {
	clearInterval(countdown);
	$("status").dataset.state = state;
	say($("status"), states[state]);
	if (state === "connecting") {
		$("again").hidden = true; // we are trying; the trouble is shown until we are connected
		$("when").textContent = "";
	} else {
		$("trouble").hidden = state === "open";
		$("again").hidden = false;
	}
	switch (state) {
	case "open":
		say($("why"), "");
		break;
	case "waiting":
		if (reason) say($("why"), `The server cannot take you in: ${reason}.`);
		else say($("why"), navigator.onLine ? "The connection is lost." : "There is no network.");
		const tell = () => $("when").textContent = ` Next attempt in ${Math.max(1, Math.round((until - Date.now()) / 1000))} s.`;
		tell();
		countdown = setInterval(tell, 1000);
		break;
	case "refused":
		say($("why"), `The server has closed the connection: ${reason}.`);
		$("when").textContent = "";
		if (!joined) ask(reason);
	}
	const open = state === "open";
	log.connected = open;
	document.body.classList.toggle("apart", !open); // who is here may have changed
	say($("people-label"), open ? "Here now" : "Last seen here");
	if (!open) {
		here = false;
		[...typing.keys()].forEach(stopsTyping);
		outbox.lost();
		showUnsent();
	}
}

$("again").onclick = () => connection.connect();

// ---- Writing

function showSend() {
	$("send").disabled = !$("text").value.trim() || outbox.waiting.length >= most;
}

function send() {
	const text = $("text").value.trim();
	if (!text || $("send").disabled) return;
	outbox.add(text);
	$("text").value = "";
	typed = 0;
	fit();
	showUnsent();
	log.toEnd();
	pump();
}

// pump sends waiting messages, as far as earlier ones were acknowledged.
function pump() {
	if (!connection.open || !known) return;
	for (const { id, text } of outbox.due()) connection.send({ type: "message", id, text }, true);
}

function showUnsent() {
	const waiting = outbox.waiting;
	if (waiting.length > 0) $("empty").hidden = true;
	log.unsent(waiting, (id) => {
		outbox.discard(id);
		showUnsent();
		$("text").focus();
	});
	showSend();
}

$("composer").onsubmit = (event) => {
	event.preventDefault();
	send();
	$("text").focus();
};

// Enter sends. A keyboard on a screen does not name the key Enter, but says what the key will do.
let shift = false;
// Not onkeydown: if it returned false, the key would be dropped.
$("text").addEventListener("keydown", (event) => {
	shift = event.shiftKey;
});
$("text").addEventListener("beforeinput", (event) => {
	if (event.inputType === "insertLineBreak" && !shift) {
		event.preventDefault();
		send();
	}
});

$("text").oninput = () => {
	fit();
	if ($("text").value.trim() && Date.now() - typed > typingEvery && connection.open) {
		typed = Date.now();
		connection.send({ type: "typing" });
	}
};

// fit makes the box as high as its text, within the limits of the style sheet.
function fit() {
	const box = $("text");
	box.style.height = "auto";
	box.style.height = `${box.scrollHeight + 2}px`; // with its border
	log.resized();
	showSend();
}

// ---- What is shown

const showCount = drawing(() => {
	$("count").textContent = people.count;
	$("menu").dataset.count = people.count;
});

const showTyping = drawing(() => {
	const names = [...typing.keys()];
	const who = names.length > 3 ? "Several people are" : names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)} are` : `${names[0]} is`;
	const dots = element("span", "dots");
	dots.append(element("i"), element("i"), element("i"));
	$("typing").replaceChildren(...(names.length ? [dots, element("span", "", `${who} typing`)] : []));
});

function showUnseen() {
	$("newest").hidden = log.unseen === 0;
}

$("newest").onclick = () => {
	log.toEnd();
	$("text").focus();
};

function showTitle() {
	document.title = `${unread ? `(${unread}) ` : ""}${room} · Chat`;
}

document.addEventListener("visibilitychange", () => {
	if (!document.hidden) showTitle(unread = 0);
});

// ---- Rooms

function pageOf(name) {
	return name === lobby ? "./" : `./?${new URLSearchParams({ room: name })}`;
}

function showRooms() {
	const rooms = [...new Set([lobby, room, ...recall("rooms", [])])].slice(0, 8);
	keep("rooms", rooms);
	$("rooms").replaceChildren(...rooms.map((name) => {
		const link = element("a", "", name);
		link.href = pageOf(name);
		link.dir = "auto";
		if (name === room) link.setAttribute("aria-current", "page");
		const item = element("li");
		item.append(link);
		return item;
	}));
}

$("go").onsubmit = (event) => {
	event.preventDefault();
	const name = $("other").value.trim();
	if (name) location.href = pageOf(name);
};

// On a narrow screen rooms and people are behind a button.
function showSide(open) {
	$("menu").setAttribute("aria-expanded", open);
	document.body.classList.toggle("side", open);
	if (open) $("side").querySelector("a").focus();
}

$("menu").onclick = () => showSide($("menu").getAttribute("aria-expanded") !== "true");
document.querySelector("main").addEventListener("pointerdown", (event) => {
	if (!$("menu").contains(event.target)) showSide(false);
});
document.addEventListener("keydown", (event) => {
	if (event.key === "Escape" && document.body.classList.contains("side")) {
		showSide(false);
		$("menu").focus();
	}
});

// ---- Names

// ask asks for a name. The person may cancel if the server knows a name already.
function ask(reason = "") {
	$("refused").hidden = !reason;
	$("refused").textContent = reason;
	if (me) $("name").value = me;
	$("where").value = room;
	$("cancel").hidden = !known;
	$("enter-title").textContent = known ? "Change your name" : "Join the chat";
	$("join").textContent = known ? "Change" : "Join";
	if (!$("enter").open) $("enter").showModal();
	$("name").select();
}

$("enter").querySelector("form").onsubmit = (event) => {
	const name = $("name").value.trim(), where = $("where").value.trim().normalize();
	if (where !== room) {
		event.preventDefault(); // the dialog stays open until the other page is there
		keep("name", name);
		location.assign(pageOf(where)); // what is not sent yet stays in the outbox of this room
	} else if (name !== me || connection.idle) {
		me = name;
		connection.connect();
	}
};

$("cancel").onclick = () => $("enter").close("cancel");

$("enter").onclose = () => {
	if (connection.idle) { // another name was refused, or none was given
		if (!known) return ask($("refused").textContent); // there is no room behind the dialog yet
		me = known;
		connection.connect();
	}
	$("text").focus();
};

$("rename").onclick = () => {
	showSide(false);
	ask();
};

// ---- What is remembered. Private windows may refuse that.

function recall(key, otherwise) {
	try {
		return JSON.parse(localStorage.getItem(`chat.${key}`)) ?? otherwise;
	} catch {
		return otherwise;
	}
}

function keep(key, value) {
	try {
		localStorage.setItem(`chat.${key}`, JSON.stringify(value));
	} catch { /* then not */ }
}

$("room").textContent = room;
showTitle();
showRooms();
showUnsent();
if (me) {
	connection.connect();
	if (matchMedia("(hover: hover)").matches) $("text").focus(); // a phone would open its keyboard
} else {
	ask();
}
