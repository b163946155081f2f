// The form goes out by fetch. How much of it has arrived is what the server says, by events.
const $ = (id) => document.getElementById(id);

const amount = (bytes) => bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;

function show({ received, total, end }) {
	if (total > 0) {
		$("bar").max = total;
		$("bar").value = end === "done" ? total : received;
	}
	$("bar").dataset.received = received;
	if (!end) {
		$("state").textContent = `${amount(received)} of ${amount(Math.max(total, received))}`;
	}
}

// send sends the form and returns what the server has stored.
async function send(form) {
	const url = `/uploads/${crypto.getRandomValues(new Uint32Array(4)).join("-")}`;
	const events = new EventSource(`${url}/progress`);
	const ended = new Promise((resolve) => {
		events.onmessage = (e) => {
			const state = JSON.parse(e.data);
			show(state);
			if (state.end) resolve(state);
		};
	});
	try {
		// The events first: then none of them is missed.
		await new Promise((resolve) => { events.onopen = events.onerror = resolve; });
		const answer = await fetch(url, { method: "POST", body: form });
		if (!answer.ok) {
			const text = answer.headers.get("Content-Type")?.startsWith("text/plain") && await answer.text();
			throw new Error(text || `${answer.status} ${answer.statusText}`);
		}
		const files = await answer.json();
		await ended;
		return files;
	} catch (error) {
		// A browser that is still sending does not see the answer. The events tell the reason, too.
		const later = new Promise((resolve) => { setTimeout(resolve, 1000); });
		const state = await Promise.race([ended, later]);
		throw state?.error ? new Error(state.error) : error;
	} finally {
		events.close();
	}
}

$("form").addEventListener("submit", async (e) => {
	e.preventDefault();
	const form = new FormData(e.target);
	$("send").disabled = true;
	$("stored").textContent = "";
	try {
		for (const { name, size } of await send(form)) {
			const item = document.createElement("li");
			item.textContent = `${name}, ${size} bytes`;
			$("stored").append(item);
		}
		$("state").textContent = "Done.";
	} catch (error) {
		$("state").textContent = `Not sent: ${error.message}`;
	} finally {
		$("send").disabled = false;
	}
});
