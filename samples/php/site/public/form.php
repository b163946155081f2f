<?php
declare(strict_types=1);

require __DIR__ . '/../page.php';

$sent = $_SERVER['REQUEST_METHOD'] === 'POST' ? $_POST : $_GET;
$name = field($sent, 'name');
$text = field($sent, 'text');

page('Form', function () use ($sent, $name, $text) {
    if ($sent !== []) { ?>
<section class="result" aria-label="What came">
<p><?= $_SERVER['REQUEST_METHOD'] ?> from <strong><?= h($name) ?></strong>, <?= strlen($text) ?> bytes of text:</p>
<pre><?= h($text) ?></pre>
</section>
<?php } ?>
<form method="post">
<label for="name">Name</label>
<input id="name" name="name" autocomplete="name" maxlength="100" value="<?= h($name) ?>">
<label for="text">Text</label>
<textarea id="text" name="text" rows="5"><?= h($text === '' ? '<b>bold?</b> "quoted" & more' : $text) ?></textarea>
<p class="buttons"><button>Send as POST</button> <button formmethod="get">Send as GET</button></p>
</form>
<?php });
