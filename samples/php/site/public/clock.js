const toggle = document.getElementById('toggle');
const state = document.getElementById('state');
let events = null;

function start() {
	events = new EventSource('/events.php');
	events.onopen = () => { state.textContent = 'Connected.'; };
	events.onerror = () => {
		// EventSource tries again by itself, except after an answer that is no stream of events:
		// all processes may be busy.
		const lost = events.readyState === EventSource.CLOSED;
		state.textContent = lost ? 'The server has no time for us.' : 'Reconnecting.';
		if (lost) stop();
	};
	events.onmessage = ({ data, lastEventId }) => {
		const { time, process } = JSON.parse(data);
		document.getElementById('time').textContent = time;
		document.getElementById('count').textContent = lastEventId;
		document.getElementById('process').textContent = process;
	};
	state.textContent = 'Connecting.';
	toggle.textContent = 'Stop';
}

function stop() {
	events.close();
	events = null;
	toggle.textContent = 'Start';
}

toggle.hidden = false;
toggle.addEventListener('click', () => {
	if (events) {
		stop();
		state.textContent = 'Stopped.';
	} else {
		start();
	}
});
start();
