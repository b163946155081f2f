// Sends the form of upload.php with XMLHttpRequest, since fetch() does not report the progress of a
// request. The form works without this script, too.
const form = document.getElementById('upload');
const cancel = document.getElementById('cancel');
const progress = document.getElementById('progress');
const result = document.getElementById('result');

function show(answer) {
	const error = document.getElementById('error');
	const received = document.getElementById('received');
	error.hidden = !answer.error;
	error.textContent = answer.error ?? '';
	received.hidden = Boolean(answer.error);
	for (const at of received.querySelectorAll('[data-of]')) at.textContent = answer[at.dataset.of] ?? '';
	result.hidden = false;
}

// The result in the answer. An answer that is not the script's is lwango's, and has only a status.
function understand(request) {
	if (request.response) return request.response;
	if (request.status === 413) return { error: 'The file is far too large.' };
	return { error: `The server answers ${request.status} ${request.statusText}.` };
}

form.addEventListener('submit', (event) => {
	event.preventDefault();
	const file = form.elements.file.files[0];
	result.hidden = true;
	if (file.size > Number(form.dataset.most)) {
		show({ error: `The file has ${file.size} bytes, and at most ${form.dataset.most} will do.` });
		return;
	}
	const request = new XMLHttpRequest();
	const bar = progress.querySelector('progress');
	const output = progress.querySelector('output');
	const button = form.querySelector('button');
	request.upload.addEventListener('progress', ({ loaded, total }) => {
		bar.value = loaded / total;
		output.textContent = loaded < total ? `${Math.floor(100 * loaded / total)} %` : 'sent, PHP is at work';
	});
	request.addEventListener('load', () => show(understand(request)));
	request.addEventListener('error', () => show({ error: 'The connection has failed.' }));
	request.addEventListener('abort', () => show({ error: 'Canceled.' }));
	request.addEventListener('loadend', () => {
		progress.hidden = cancel.hidden = true;
		button.disabled = false;
		cancel.onclick = null;
	});
	cancel.onclick = () => request.abort();
	bar.value = 0;
	output.textContent = '0 %';
	progress.hidden = cancel.hidden = false;
	button.disabled = true;
	request.open('POST', form.action);
	request.setRequestHeader('Accept', 'application/json');
	request.responseType = 'json';
	request.send(new FormData(form));
});
