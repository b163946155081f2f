<?php
// What the pages share. It is beside the public folder: scripts can include it, clients cannot ask
// for it.

declare(strict_types=1);

const PAGES = [
    '/' => 'Home',
    '/form.php' => 'Form',
    '/upload.php' => 'Upload',
    '/clock.php' => 'Clock',
    '/hello/world' => 'Pretty URL',
    '/info.php' => 'phpinfo',
    '/error.php' => 'Error',
];

/** Text as HTML. Bytes that are no UTF-8 are replaced; else htmlspecialchars would return "". */
function h(string $text): string
{
    return htmlspecialchars($text, ENT_QUOTES | ENT_SUBSTITUTE, 'UTF-8');
}

/** A field from the client; "" if there is none, or a list under that name. */
function field(array $from, string $name): string
{
    return is_string($from[$name] ?? null) ? $from[$name] : '';
}

/** The path of the request, without the query. */
function path(): string
{
    return rawurldecode(strtok($_SERVER['REQUEST_URI'], '?'));
}

/** The bytes of an ini setting in whole M, as php-fpm.conf has them. */
function bytes(string $setting): int
{
    return (int) ini_get($setting) << 20;
}

/** Prints a whole page; main prints its content. */
function page(string $title, callable $main, int $status = 200): void
{
    http_response_code($status);
    header('Content-Type: text/html; charset=utf-8');
    header("Content-Security-Policy: default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self';"
        . " img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
    ?>
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title><?= h($title) ?></title>
<link rel="icon" href="/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/style.css">
</head>
<body>
<nav aria-label="Pages">
<ul>
<?php foreach (PAGES as $href => $name): ?>
<li><a href="<?= $href ?>"<?= $href === path() ? ' aria-current="page"' : '' ?>><?= $name ?></a></li>
<?php endforeach ?>
</ul>
</nav>
<main>
<h1><?= h($title) ?></h1>
<?php $main() ?>
</main>
</body>
</html>
<?php
}

// The last resort: the client learns that something went wrong, the log learns what. The pages
// print nothing before their work is done, so the status can still be set.
set_exception_handler(function (Throwable $e): void {
    error_log("Uncaught $e");
    page('Something went wrong', function () { ?>
<p>This page could not be made. The reason is in the server's log.</p>
<?php }, 500);
});
