/** What the guide for imports says, as it stands but for the addresses, with history of some years ago. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { freePort } from '../support/free-port.ts'
import { fences, section } from '../support/markdown.ts'
import { read } from '../support/tree.ts'
import { startListeners } from './listeners.ts'
import { startNode } from './node.ts'
import { cached, execute, lackingPython, PYTHON } from './program.ts'
import { missing, startProgram } from './service.ts'

const guide = read('docs/guides/migrate.md')
const START_SECS = 1_500_000_000
const PATIENCE_MS = 30_000

const block = (heading: string, begin: string): string => {
  const found = fences(section(guide, heading) ?? '').find(({ text }) => text.startsWith(begin))
  assert.ok(found !== undefined, `there is a block that begins with ${begin} under ${heading}`)
  return found.text
}

const folderFor = async (t: { after(work: () => Promise<void>): void }): Promise<string> => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-interop-migrate-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  return folder
}

const shell = async (folder: string, text: string): Promise<string> => {
  const { code, stdout, stderr } = await execute('sh', ['-c', `cd ${JSON.stringify(folder)}\n${text}`], { PATH: `${cached('bin')}:${process.env.PATH}` })
  assert.equal(code, 0, stderr)
  return stdout
}

/** Points, first and last time in seconds, as the guide asks for them. */
const found = async (url: string, measurement: string): Promise<number[]> => {
  const ask = block('Look whether all is there', 'curl').replace('http://svc:8086', url).replace('FROM climate', `FROM ${measurement}`)
  const answer = JSON.parse((await execute('sh', ['-c', ask])).stdout)
  const [points, ...times] = answer.rows?.[0] ?? [0]
  return [points, ...times.map((time: number) => time / 1e9)]
}

test('an export of InfluxDB', async (t) => {
  const folder = await folderFor(t)
  const node = await startNode({ plugins: ['line_protocol', 'sql'] })
  t.after(() => node.stop())
  // As influx_inspect writes it: a field after the other.
  const lines = ['# INFLUXDB EXPORT', '# DDL', 'CREATE DATABASE plant WITH NAME autogen', '# DML', '# CONTEXT-DATABASE:plant']
  for (const field of ['celsius', 'humidity']) for (let i = 0; i < 30_000; i++) lines.push(`climate,room=r1 ${field}=${i % 9} ${START_SECS + i}000000000`)
  await writeFile(join(folder, 'dump.lp'), `${lines.join('\n')}\n`)
  const command = block('InfluxDB', 'grep').replace('http://svc:8086', node.url)
  assert.equal(await shell(folder, command), '')
  assert.deepEqual(await found(node.url, 'climate'), [30_000, START_SECS, START_SECS + 29_999])
  await writeFile(join(folder, 'dump.lp'), 'climate celsius=1 1\nclimate celsius="warm" 2\n')
  assert.match(await shell(folder, command), /^\{"error":"partial write: .*"\S*broken off\n$/s)
})

test('exports of VictoriaMetrics and Prometheus, through vmagent', { skip: missing('vmagent') || missing('promtool') }, async (t) => {
  const folder = await folderFor(t)
  const node = await startNode({ plugins: ['remote_write', 'sql'] })
  t.after(() => node.stop())
  const address = `127.0.0.1:${await freePort()}`
  const target = /-remoteWrite\.url='http:\/\/svc:8086(.*)'/.exec(block('VictoriaMetrics', 'vmagent'))?.[1]
  const flags = [`-httpListenAddr=${address}`, `-remoteWrite.url=${node.url}${target}`, `-remoteWrite.tmpDataPath=${join(folder, 'queue')}`]
  const vmagent = await startProgram('vmagent', flags, `http://${address}`, '/health')
  try {
    const until = async (measurement: string, expected: number[]) => {
      for (const end = Date.now() + PATIENCE_MS; (await found(node.url, measurement))[0] !== expected[0]; await setTimeout(200))
        assert.ok(Date.now() < end, `${vmagent.output()}\n${node.output()}`)
      assert.deepEqual(await found(node.url, measurement), expected)
    }
    const values = Array.from({ length: 5000 }, (_, i) => i)
    const exported = { metric: { __name__: 'climate', room: 'r1' }, values, timestamps: values.map((i) => (START_SECS + i) * 1000) }
    await writeFile(join(folder, 'all.jsonl'), `${JSON.stringify(exported)}\n`)
    await shell(folder, block('VictoriaMetrics', 'curl -sS').replace('http://localhost:8429', vmagent.url))
    await until('climate', [5000, START_SECS, START_SECS + 4999])

    const samples = values.map((i) => `kept{room="r1"} ${i} ${START_SECS + i * 60}`)
    await writeFile(join(folder, 'open.txt'), `# TYPE kept gauge\n${samples.join('\n')}\n# EOF\n`)
    await shell(folder, 'promtool tsdb create-blocks-from openmetrics open.txt snapshot')
    await shell(folder, block('Prometheus', 'mkdir').replace('http://localhost:8429', vmagent.url))
    await until('kept', [5000, START_SECS, START_SECS + 4999 * 60])
  } finally {
    await vmagent.stop()
  }
})

test('a CSV file of QuestDB', { skip: lackingPython('pyarrow') }, async (t) => {
  const folder = await folderFor(t)
  const listeners = await startListeners(['flight_sql'])
  t.after(() => listeners.stop())
  const rows = Array.from({ length: 5000 }, (_, i) => `"r1",${i / 2},true,"${new Date((START_SECS + i) * 1000).toISOString().replace('Z', '000Z')}"`)
  await writeFile(join(folder, 'climate.csv'), `"room","celsius","open","timestamp"\n${rows.join('\n')}\n`)
  await writeFile(join(folder, 'import.py'), block('QuestDB, and other CSV', 'import').replace('localhost:4244', listeners.flight))
  await shell(folder, `${JSON.stringify(PYTHON)} import.py`)
  assert.deepEqual(await found(listeners.url, 'climate'), [5000, START_SECS, START_SECS + 4999])
})
