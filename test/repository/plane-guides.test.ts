/** The guides for agents and for the operator API, done as they say: their files, their configs and their commands. */
import { execFile } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { fences, section } from '../support/markdown.ts'
import { MAIN, type RunningServer, runServer } from '../support/server.ts'
import { ROOT, read } from '../support/tree.ts'
import { until } from '../support/until.ts'

const sh = promisify(execFile)
const SOMEBODYS = 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV'

/** A folder with the package in it, and the blocks of a guide. */
function fresh(t: Test, file: string) {
  const folder = temporaryFolder(t)
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(ROOT, join(folder, 'node_modules/svcdb'))
  const guide = read(file)
  return {
    folder,
    write: (name: string, text: string) => writeFileSync(join(folder, name), text),
    blocks: (heading: string, language: string) => fences(section(guide, heading) ?? '').flatMap((one) => (one.language === language ? [one.text] : [])),
    /** Of a command as it stands there. @returns what it prints. */
    run: async (text: string, env: Record<string, string> = {}, url = '') => {
      const script = `svc() { node "${MAIN}" "$@"; }\n${text.replaceAll('http://localhost:8086', url)}`
      return (await sh('bash', ['-ec', script], { cwd: folder, env: { PATH: process.env.PATH, ...env } })).stdout
    },
  }
}

t.test('an agent, as its guide has it', { timeout: 300_000 }, async (t) => {
  const { folder, write, blocks, run } = fresh(t, 'docs/guides/agents.md')
  write('disk.ts', blocks('Write one', 'ts')[0])
  write('svc.toml', blocks('Run it', 'toml')[0])
  const server: RunningServer = await runServer(join(folder, 'svc.toml'), { cwd: folder, keepData: true })
  t.teardown(() => server.remove())
  const [begin, look] = blocks('Run it', 'sh')
  const first = JSON.parse(await run(begin, {}, server.url))
  t.match(first, { run: /^run_/, existing: false })
  t.match(JSON.parse(await run(begin, {}, server.url)), { run: first.run, existing: true }, 'the same key gives the same run again')
  t.match(
    await until('the run ends', async () => {
      const seen = JSON.parse(await run(look.replace(SOMEBODYS, first.run), {}, server.url))
      return seen.concluded && seen
    }),
    { status: 'succeeded', output: 'cleaned a' },
  )
  t.match(JSON.parse(await run(`svc plane replay ${first.run} --url ${server.url}`)), { divergences: [] })
  t.equal(await server.stop(), 0)

  const digest = (await run(blocks('Changed code, changed agents', 'sh')[0])).trim()
  const [admitted] = (await run(`svc plane history ${first.run} --config svc.toml`, { SVC_DATA_DIR: server.dataDir })).split('\n')
  t.equal(JSON.parse(admitted).governed_by.digest, digest, 'what a run is bound to')

  write('disk.ts', blocks('Write one', 'ts')[0].replace('{ host }),\n    }),', "{ host: 'b' }),\n    }),"))
  const other = await runServer(join(folder, 'svc.toml'), { cwd: folder, env: { SVC_DATA_DIR: server.dataDir } })
  t.teardown(() => other.stop())
  await t.rejects(
    run(`svc plane replay ${first.run} --url ${other.url}`),
    { code: 1, stdout: /"divergences":\["step s1: effect 1/ },
    'it says where it does something else',
  )
})

t.test('the operator API, as its guide has it', { timeout: 300_000 }, async (t) => {
  const { folder, write, blocks, run } = fresh(t, 'docs/guides/operator-api.md')
  const tokens = ['n'.repeat(44), 'o'.repeat(44)]
  const yaml = blocks('Set it up', 'yaml')[0].replace('<44 random characters>', tokens[0]).replace('<44 others>', tokens[1])
  write('svc.toml', blocks('Set it up', 'toml')[0])
  // Whenever this runs, it is before the end of the second.
  write('tokens.yaml', yaml.replace('2027-', '2999-'))
  write('plane.cedar', blocks('Set it up', 'cedar')[0])
  const server = await runServer(join(folder, 'svc.toml'), { cwd: folder })
  t.teardown(() => server.stop())
  const [look] = blocks('Use it', 'sh')
  t.match(JSON.parse(await run(look, { TOKEN: tokens[0] }, server.url)), { error: /^cannot find run / }, 'whoever may look is told that there is none')
  t.match(JSON.parse(await run(look, { TOKEN: 'x' }, server.url)), { error: /not accepted/ })
  const cancel = `curl -s ${server.url}/api/v1/plane/runs/${SOMEBODYS}/cancel -H "authorization: Bearer $TOKEN" -H 'content-type: application/json' -d '{"reason": "x"}'`
  t.match(JSON.parse(await run(cancel, { TOKEN: tokens[0] })), { error: /^ann may not do "api:run.cancel"/ })
  t.match(JSON.parse(await run(cancel, { TOKEN: tokens[1] })), { error: /^cannot find run / })
  await t.rejects(
    run('svc plane cancel RUN --reason TEXT --actor olga --config svc.toml', { SVC_DATA_DIR: server.dataDir }),
    { code: 4, stderr: /has it open/ },
    'refused while a server runs',
  )
})
