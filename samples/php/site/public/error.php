<?php
declare(strict_types=1);

require __DIR__ . '/../page.php';

throw new RuntimeException("A deliberate error.\nOf two lines.");
