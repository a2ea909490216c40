/** A page that lists the operations of /api/v1/openapi.json. Self-contained: it loads nothing from elsewhere. */
export const docsPage = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>svc API</title>
<style>
  body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color-scheme: light dark }
  h2 { margin: 2rem 0 .5rem; font-size: 1.1rem; text-transform: capitalize }
  details { border: 1px solid #8884; border-radius: 6px; margin: .4rem 0; padding: .4rem .8rem }
  summary { cursor: pointer } summary code { font-weight: 600 }
  .method { display: inline-block; width: 4.5rem; font: 600 .8rem monospace }
  pre { overflow: auto; background: #8882; padding: .6rem; border-radius: 6px }
</style>
<h1>svc API</h1>
<p>The machine-readable form is <a href="openapi.json">openapi.json</a>.</p>
<main>Loading</main>
<script>
  const element = (name, text, parent, className) => {
    const e = document.createElement(name)
    if (text) e.textContent = text
    if (className) e.className = className
    parent.append(e)
    return e
  }
  const show = (title, value, parent) => {
    if (!value) return
    element('p', title, parent)
    element('pre', JSON.stringify(value, null, 2), parent)
  }
  fetch('openapi.json').then((r) => r.json()).then((api) => {
    const main = document.querySelector('main')
    main.textContent = ''
    const groups = new Map()
    for (const [path, item] of Object.entries(api.paths)) {
      for (const [method, operation] of Object.entries(item)) {
        const tag = (operation.tags || ['other'])[0]
        groups.set(tag, [...(groups.get(tag) || []), { path, method, operation }])
      }
    }
    for (const [tag, operations] of groups) {
      element('h2', tag.replaceAll('_', ' '), main)
      for (const { path, method, operation } of operations) {
        const box = element('details', '', main)
        const head = element('summary', '', box)
        element('span', method.toUpperCase(), head, 'method')
        element('code', path, head)
        head.append(' ' + (operation.summary || ''))
        if (operation.description) element('p', operation.description, box)
        show('Parameters', operation.parameters, box)
        show('Body', operation.requestBody && operation.requestBody.content, box)
        show('Answers', operation.responses, box)
      }
    }
  }).catch((error) => { document.querySelector('main').textContent = 'The description could not be loaded: ' + error })
</script>
</html>
`
