/** What a browser sees at `/`, and what clients look for there that only check whether somebody answers. It loads nothing. */
export const INDEX_PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>svc</title>
<h1>svc</h1>
<p>A time-series database. This is its HTTP API.</p>
<ul>
<li><a href="api/v1/docs">Operations</a>, and <a href="api/v1/openapi.json">their description</a> for machines</li>
<li><a href="ready">Whether the node is ready</a></li>
</ul>
</html>
`
/** A page of its own, which nothing may frame, script or style. */
export const INDEX_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
