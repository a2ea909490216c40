import t from 'tap'
import { fences } from '../support/markdown.ts'
import { runServer } from '../support/server.ts'
import { read } from '../support/tree.ts'

t.test('examples/hello-world: it greets and counts', async (t) => {
  const server = await runServer('examples/hello-world/svc.toml')
  t.same(await (await fetch(`${server.url}/hello/world`)).json(), { greeting: 'hi world' })
  t.match(await (await fetch(`${server.url}/metrics`)).text(), /^svc_greetings_total 1$/m)
  t.match(server.output(), /storage=none/, 'it opens no database')
  t.equal(await server.stop(), 0)
})

t.test('it has at most 20 lines, and the guide shows it as it is', async (t) => {
  const source = read('examples/hello-world/hello.ts')
  t.ok(source.trim().split('\n').length <= 20)
  t.ok(fences(read('docs/guides/write-a-plugin.md')).some(({ text }) => text === source))
})
