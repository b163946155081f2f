<?php
// What the pages share. It lies beside the public folder: scripts include it, nobody can ask for it.

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

/** Text as HTML. What is no UTF-8 is replaced, or nothing would be left of it. */
function h(string $text): string
{
    return htmlspecialchars($text, ENT_QUOTES | ENT_SUBSTITUTE, 'UTF-8');
}

/** A field that a client has sent; "" if it has not, or has sent a list under that name. */
function field(array $from, string $name): string
{
    return is_string($from[$name] ?? null) ? $from[$name] : '';
}

/** Path of the request, without the query. */
function path(): string
{
    return rawurldecode(strtok($_SERVER['REQUEST_URI'], '?'));
}

/** Bytes that an ini setting stands for; it is in whole M, as in php-fpm.conf. */
function bytes(string $setting): int
{
    return (int) ini_get($setting) << 20;
}

/** Prints a whole page; main prints what is its own. */
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

// The last resort: the client learns that something went wrong, the log learns what. The pages print nothing before
// their work is done, so there is a status to set.
set_exception_handler(function (Throwable $e): void {
    error_log("Uncaught $e");
    page('Something went wrong', function () { ?>
<p>This page could not be made. The reason is in the server's log.</p>
<?php }, 500);
});
