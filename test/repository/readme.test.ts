/** The commands that the README shows, run as they stand there, answer what it shows. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { builtinPlugins, loadPlugin } from 'svcdb/testkit'
import t from 'tap'
import { fences, section, tableRows } from '../support/markdown.ts'
import { runServer } from '../support/server.ts'
import { read } from '../support/tree.ts'

const readme = read('README.md')
const sh = promisify(execFile)

t.test('every curl line answers what is shown below it', async (t) => {
  const server = await runServer('svc.toml')
  t.teardown(() => server.stop())
  // On a node that holds newer points the examples must do the same.
  t.equal((await fetch(`${server.url}/write`, { method: 'POST', body: 'now v=1' })).status, 204)
  const blocks = fences(section(readme, 'Example') ?? '')
  t.ok(blocks.filter(({ language }) => language === 'json').length >= 4)
  for (const [i, { language, text, line }] of blocks.entries()) {
    if (language !== 'sh') continue
    t.match(text, /http:\/\/localhost:8086/)
    const { stdout } = await sh('bash', ['-ec', text.replaceAll('curl ', 'curl -sS ').replaceAll('http://localhost:8086', server.url)])
    const shown = blocks[i + 1]?.language === 'json' ? blocks[i + 1].text : ''
    t.equal(stdout.trim(), shown.trim(), `the block at line ${line} of the example`)
  }
})

t.test('the two commands are those of package.json', async (t) => {
  const { scripts } = JSON.parse(read('package.json'))
  for (const { text } of fences(section(readme, 'Start') ?? '')) {
    for (const command of text.trim().split('\n')) t.ok(scripts[command.replace(/^npm (run )?/, '')], command)
  }
  for (const [, name] of readme.matchAll(/npm run ([\w:]+)/g)) t.ok(scripts[name], name)
})

t.test('the table of plugins is what there is', async (t) => {
  const rows = tableRows(section(readme, 'Plugins') ?? '')
  const plugins = await Promise.all(builtinPlugins().map((id) => loadPlugin(id, '.')))
  t.same(
    rows,
    plugins.map(({ id, summary, stability }) => [`[${id}](plugins/${id}/README.md)`, summary, stability]),
  )
})
