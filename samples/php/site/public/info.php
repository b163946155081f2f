<?php
declare(strict_types=1);

header("Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'");
phpinfo();
