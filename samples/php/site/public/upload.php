<?php
// A file arrives in a form. The answer is a page, or JSON for upload.js, which asks for that.

declare(strict_types=1);

require __DIR__ . '/../page.php';

$most = (bytes('upload_max_filesize') >> 20) . ' MiB';

/** Looks at what has arrived, and returns [status, result]. */
function received(string $most): array
{
    if ((int) $_SERVER['CONTENT_LENGTH'] > bytes('post_max_size')) {
        return [413, ['error' => "The file is too large: at most $most will do."]]; // PHP has dropped all of it
    }
    $file = $_FILES['file'] ?? null;
    if ($file === null || is_array($file['error'])) {
        return [400, ['error' => 'One file is expected, in a field called "file".']];
    }
    switch ($file['error']) {
        case UPLOAD_ERR_OK:
            return [200, [
                'name' => $file['name'],
                'size' => $file['size'],
                'sha256' => hash_file('sha256', $file['tmp_name']), // PHP removes the file after the script
            ]];
        case UPLOAD_ERR_INI_SIZE:
            return [413, ['error' => "The file is too large: at most $most will do."]];
        case UPLOAD_ERR_NO_FILE:
            return [400, ['error' => 'No file was chosen.']];
        case UPLOAD_ERR_PARTIAL:
            return [400, ['error' => 'The file has not come to its end.']];
    }
    throw new RuntimeException("upload error {$file['error']}");
}

[$status, $result] = $_SERVER['REQUEST_METHOD'] === 'POST' ? received($most) : [200, []];

if (($_SERVER['HTTP_ACCEPT'] ?? '') === 'application/json') {
    http_response_code($status);
    header('Content-Type: application/json');
    echo json_encode($result, JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_UNICODE | JSON_THROW_ON_ERROR);
    exit;
}

page('Upload', function () use ($most, $result) { ?>
<form method="post" enctype="multipart/form-data" id="upload" data-most="<?= bytes('upload_max_filesize') ?>">
<label for="file">A file of at most <?= $most ?>, of which nothing is kept</label>
<input type="file" id="file" name="file" required>
<p class="buttons"><button>Upload</button> <button type="button" id="cancel" hidden>Cancel</button></p>
</form>
<p id="progress" hidden><progress max="1" value="0" aria-label="Sent"></progress> <output></output></p>
<section id="result" class="result" role="status"<?= $result === [] ? ' hidden' : '' ?>>
<p id="error"<?= isset($result['error']) ? '' : ' hidden' ?>><?= h($result['error'] ?? '') ?></p>
<dl id="received"<?= isset($result['name']) ? '' : ' hidden' ?>>
<dt>Name</dt><dd data-of="name"><?= h($result['name'] ?? '') ?></dd>
<dt>Size</dt><dd><span data-of="size"><?= h((string) ($result['size'] ?? '')) ?></span> bytes</dd>
<dt>SHA-256</dt><dd><code data-of="sha256"><?= h($result['sha256'] ?? '') ?></code></dd>
</dl>
</section>
<script src="/upload.js" defer></script>
<?php }, $status);
