// The page: who is here, what is said, and what the connection is at. The protocol is described in ../README.md.

import { Connection } from "./connection.js";
import { Log, avatar, element } from "./log.js";

const $ = (id) => document.getElementById(id);
const typingEvery = 3000; // milliseconds between two frames that say that we are typing
const typingFor = 5000;   // how long somebody who said so is taken to be typing

const lobby = "lobby";
const room = new URLSearchParams(location.search).get("room")?.trim() || lobby;
const log = new Log($("log"), showUnseen);

let me = recall("name", "");
const connection = new Connection();
let here = new Set();     // names of those in the room
let typing = new Map();   // name -> timer
let typed = 0;            // when we last said that we are typing
let unread = 0;           // messages that have come while the page was hidden

// ---- What the server sends

const frames = {
	history({ messages = [] }) {
		if (messages.length > 0) $("empty")?.remove();
		log.history(messages);
	},
	presence({ name, names }) {
		log.me = me = name;
		here = new Set(names);
		$("me").textContent = me;
		showPeople();
	},
	message(m) {
		$("empty")?.remove();
		log.message(m);
		stopsTyping(m.name);
		if (document.hidden && m.name !== me) showTitle(++unread);
	},
	join({ name, time }) {
		here.add(name);
		showPeople();
		if (name !== me) log.notice(`${name} has joined`, time);
	},
	leave({ name, time }) {
		here.delete(name);
		stopsTyping(name);
		showPeople();
		log.notice(`${name} has left`, time);
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

// ---- The connection

function join() {
	const url = new URL("ws-chat", location.href);
	url.protocol = url.protocol.replace("http", "ws");
	url.search = new URLSearchParams({ room, name: me });
	connection.connect(url);
}

connection.addEventListener("frame", ({ detail }) => frames[detail.type]?.(detail)); // what is new to us we leave alone
connection.addEventListener("state", ({ detail }) => showState(detail));

const states = { connecting: "Connecting", open: "Connected", waiting: "No connection", refused: "Disconnected" };
let countdown = 0;

function showState({ state, until, reason, joined }) {
	clearInterval(countdown);
	$("status").dataset.state = state;
	$("status").textContent = states[state];
	if (state === "connecting") {
		$("again").hidden = true; // it is being tried; the trouble, if there was any, is shown until it is over
	} else {
		$("trouble").hidden = state === "open";
		$("again").hidden = false;
	}
	switch (state) {
	case "waiting":
		const tell = () => $("why").textContent = `The connection is lost. Next attempt in ${Math.max(1, Math.round((until - Date.now()) / 1000))} s.`;
		tell();
		countdown = setInterval(tell, 1000);
		break;
	case "refused":
		$("why").textContent = `The server has closed the connection: ${reason}.`;
		if (!joined) ask(reason);
	}
	if (state !== "open") {
		[...typing.keys()].forEach(stopsTyping);
	}
	showSend();
}

$("again").onclick = join;

// ---- Writing

function showSend() {
	$("send").disabled = !connection.open || !$("text").value.trim();
}

function send() {
	const text = $("text").value.trim();
	if (!text || !connection.send({ type: "message", text })) return; // it stays where it is until it can go
	$("text").value = "";
	typed = 0;
	fit();
	log.toEnd();
}

$("composer").onsubmit = (event) => {
	event.preventDefault();
	send();
	$("text").focus();
};

// Enter sends, as a keyboard on glass says it too: there the key has no name, but what it is going to do has.
let shift = false;
$("text").addEventListener("keydown", (event) => { // not onkeydown: false, returned there, is the end of the key
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
	if ($("text").value.trim() && Date.now() - typed > typingEvery) {
		typed = Date.now();
		connection.send({ type: "typing" });
	}
};

// fit makes the box as high as its text, within the limits of the style sheet.
function fit() {
	const box = $("text");
	box.style.height = "auto";
	box.style.height = `${box.scrollHeight + 2}px`; // and its border
	showSend();
}

// ---- What is shown

let peopleAreDue = false;

// showPeople draws the list once, however many come and go at a time.
function showPeople() {
	if (peopleAreDue) return;
	peopleAreDue = true;
	requestAnimationFrame(() => {
		peopleAreDue = false;
		const names = [...here].sort((a, b) => (b === me) - (a === me) || a.localeCompare(b));
		$("count").textContent = names.length;
		$("menu").dataset.count = names.length;
		$("people").replaceChildren(...names.map((name) => {
			const item = element("li");
			const text = element("span", "who", name);
			text.dir = "auto";
			item.append(avatar(name), text);
			if (name === me) item.append(element("span", "you", "you"));
			return item;
		}));
	});
}

function showTyping() {
	const names = [...typing.keys()];
	const who = names.length > 3 ? "Several people are" : names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)} are` : `${names[0]} is`;
	const dots = element("span", "dots");
	dots.append(element("i"), element("i"), element("i"));
	$("typing").replaceChildren(...(names.length ? [dots, element("span", "", `${who} typing`)] : []));
}

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

function address(name) {
	return name === lobby ? "./" : `./?${new URLSearchParams({ room: name })}`;
}

function showRooms() {
	const rooms = [...new Set([lobby, room, ...recall("rooms", [])])].slice(0, 8);
	keep("rooms", rooms);
	$("rooms").replaceChildren(...rooms.map((name) => {
		const link = element("a", "", name);
		link.href = address(name);
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
	if (name) location.href = address(name);
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

function ask(reason = "") {
	$("refused").hidden = !reason;
	$("refused").textContent = reason;
	$("name").value = me;
	$("where").value = room;
	if (!$("enter").open) $("enter").showModal();
	$("name").select();
}

$("enter").querySelector("form").onsubmit = () => {
	keep("name", $("name").value.trim());
	const where = $("where").value.trim();
	if (where === room && connection.idle) {
		me = $("name").value.trim();
		join();
	} else {
		location.assign(address(where)); // a name is for as long as a connection: begin anew
	}
};

$("enter").oncancel = (event) => {
	if (!connection.open) event.preventDefault(); // there is nothing behind it
};

$("enter").onclose = () => $("text").focus();

$("rename").onclick = () => ask();

// ---- What is remembered. Private windows may refuse to.

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
if (me) {
	join();
	if (matchMedia("(hover: hover)").matches) $("text").focus(); // elsewhere it would bring up a keyboard
} else {
	ask();
}
