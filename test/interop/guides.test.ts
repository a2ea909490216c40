/** What the guide for clients says, as it stands but for the addresses. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fences, headings, section } from '../support/markdown.ts'
import { ROOT, read } from '../support/tree.ts'
import { type Listeners, startListeners } from './listeners.ts'
import { cached, execute, lacking, lackingPython, PYTHON } from './program.ts'

const guide = read('docs/guides/clients.md')

function at({ grpc, flight }: Listeners, text: string): string {
  return text.replaceAll('localhost:4243', grpc).replaceAll('localhost:4244', flight)
}

test('the Python of the guide', { skip: lackingPython('pyarrow', 'adbc') }, async (t) => {
  const listeners = await startListeners(['flight_sql'])
  t.after(() => listeners.stop())
  const folder = await mkdtemp(join(tmpdir(), 'svc-interop-guide-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  let ran = 0
  for (const heading of headings(guide)) {
    const blocks = fences(section(guide, heading) ?? '').filter(({ language }) => language === 'python')
    if (blocks.length === 0) continue
    ran++
    await t.test(heading, async () => {
      const file = join(folder, `${ran}.py`)
      await writeFile(file, at(listeners, blocks.map(({ text }) => text).join('')))
      const { code, stdout, stderr } = await execute(PYTHON, [file])
      assert.equal(code, 0, stderr)
      assert.match(stdout, /usage: double/, 'it shows what it wrote')
    })
  }
  assert.equal(ran, 2)
})

test('the grpcurl of the guide', { skip: lacking('grpcurl', 'bin/grpcurl') }, async (t) => {
  const listeners = await startListeners(['grpc'])
  t.after(() => listeners.stop())
  const [line] = fences(section(guide, 'gRPC') ?? '').filter(({ text }) => text.startsWith('grpcurl '))
  const command = `cd ${JSON.stringify(ROOT)} && ${at(listeners, line.text).replace('grpcurl', JSON.stringify(cached('bin/grpcurl')))}`
  const { code, stdout, stderr } = await execute('sh', ['-c', command])
  assert.equal(code, 0, stderr)
  assert.deepEqual(JSON.parse(stdout).rows, [{ values: [{ int64: '1' }] }])
})
