// The form goes out by fetch. How much of it has arrived is what the server says, by events.
const $ = (id) => document.getElementById(id);

// amount is a size as a person reads it, in powers of 1000, as the server writes it, too.
function amount(bytes) {
	const units = ["bytes", "kB", "MB", "GB", "TB"];
	let n = bytes, unit = 0;
	while (n >= 999.5 && unit < units.length - 1) n /= 1000, unit++;
	return `${unit > 1 && n < 99.95 ? n.toFixed(1) : Math.round(n)} ${bytes === 1 ? "byte" : units[unit]}`;
}

function duration(seconds) {
	const s = Math.max(1, Math.round(seconds));
	if (s < 60) return `${s} s`;
	const m = Math.round(s / 60);
	return m < 60 ? `${m} min` : `${Math.floor(m / 60)} h ${m % 60} min`;
}

// Speed is the rate of the last seconds, in bytes a second.
class Speed {
	#samples = []; // {at, bytes}, of which the first is some seconds old

	add(bytes) {
		const at = performance.now();
		this.#samples.push({ at, bytes });
		while (this.#samples.length > 2 && at - this.#samples[1].at > 5000) this.#samples.shift();
	}

	// rate is 0 as long as there is too little to tell.
	get rate() {
		const first = this.#samples[0], last = this.#samples.at(-1);
		return last?.at - first?.at >= 500 ? (last.bytes - first.bytes) * 1000 / (last.at - first.at) : 0;
	}
}

function show({ received, total, end }, speed) {
	if (total > 0) {
		$("bar").max = total;
		$("bar").value = end === "done" ? total : received;
	}
	if (end || !$("send").disabled) return;
	speed.add(received);
	const rest = Math.max(total - received, 0), rate = speed.rate;
	const so = [total > 0 ? `${amount(received)} of ${amount(Math.max(total, received))}` : amount(received)];
	if (rate > 0) so.push(`${amount(rate)}/s`);
	if (rate > 0 && rest > 0) so.push(`${duration(rest / rate)} left`);
	$("state").textContent = so.join(", ");
}

// send sends the form and returns what the server has stored. signal cancels it.
async function send(form, signal) {
	const url = `/uploads/${crypto.getRandomValues(new Uint32Array(4)).join("-")}`;
	const events = new EventSource(`${url}/progress`), speed = new Speed();
	const ended = new Promise((resolve) => {
		events.onmessage = (e) => {
			const state = JSON.parse(e.data);
			if (!signal.aborted) show(state, speed);
			if (state.end) resolve(state);
		};
	});
	try {
		// The events first: then none of them is missed.
		await new Promise((resolve) => { events.onopen = events.onerror = signal.onabort = resolve; });
		const answer = await fetch(url, { method: "POST", body: form, signal });
		if (!answer.ok) {
			const text = answer.headers.get("Content-Type")?.startsWith("text/plain") && await answer.text();
			throw new Error(text || `${answer.status} ${answer.statusText}`);
		}
		const files = await answer.json();
		await ended;
		return files;
	} catch (error) {
		if (signal.aborted) throw error;
		// A browser that is still sending does not see the answer. The events tell the reason, too.
		const later = new Promise((resolve) => { setTimeout(resolve, 1000); });
		const state = await Promise.race([ended, later]);
		throw state?.error ? new Error(state.error) : error;
	} finally {
		events.close();
	}
}

let sending = null; // the AbortController of the upload that is on its way

$("form").addEventListener("submit", async (e) => {
	e.preventDefault();
	const form = new FormData(e.target);
	const { signal } = sending = new AbortController();
	$("send").disabled = $("files").disabled = true;
	$("cancel").hidden = false;
	$("stored").textContent = "";
	$("bar").value = 0;
	$("state").textContent = "Sending";
	try {
		for (const { name, size } of await send(form, signal)) {
			const item = document.createElement("li");
			item.textContent = `${name}, ${amount(size)}`;
			$("stored").append(item);
		}
		$("state").textContent = "Done.";
		$("files").value = "";
	} catch (error) {
		$("state").textContent = signal.aborted ? "Canceled." : `Not sent: ${error.message}`;
		$("bar").value = 0;
	} finally {
		sending = null;
		$("send").disabled = $("files").disabled = false;
		$("cancel").hidden = true;
	}
});

$("cancel").onclick = () => sending?.abort();

// Files may be dropped anywhere: a browser would leave the page for one that misses the frame.
let inside = 0; // elements that the dragged files are over
const carried = (e) => e.dataTransfer?.types.includes("Files");

addEventListener("dragenter", (e) => { if (carried(e)) $("drop").classList.toggle("over", ++inside > 0 && !sending); });
addEventListener("dragleave", (e) => { if (carried(e)) $("drop").classList.toggle("over", --inside > 0 && !sending); });
addEventListener("dragover", (e) => {
	if (!carried(e)) return;
	e.preventDefault();
	e.dataTransfer.dropEffect = sending ? "none" : "copy";
});
addEventListener("drop", (e) => {
	if (!carried(e)) return;
	e.preventDefault();
	inside = 0;
	$("drop").classList.remove("over");
	if (sending || e.dataTransfer.files.length === 0) return;
	$("files").files = e.dataTransfer.files;
	$("form").requestSubmit();
});
