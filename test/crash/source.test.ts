/** Kills a node while a source feeds it: every acknowledged message is there after a restart, whole. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { definePlugin } from 'svcdb'
import { Logs, resolveConfig, SvcNode } from 'svcdb/testkit'
import t from 'tap'

const CHILD = fileURLToPath(new URL('./source-node.ts', import.meta.url))
const ROWS = 3

/** Runs until so many messages were acknowledged, then ends by the signal. @returns their ids. */
async function feed(dataDir: string, first: number, enough: number, signal: NodeJS.Signals): Promise<number[]> {
  const child = spawn(process.execPath, [CHILD, dataDir, String(first)], { stdio: ['ignore', 'pipe', 'inherit'] })
  const closed = once(child, 'close')
  const ids: number[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    if (/^\d+$/.test(line)) ids.push(Number(line))
    if (ids.length === enough) child.kill(signal)
  }
  await closed
  return ids
}

/** Rows of each id. */
async function stored(dataDir: string): Promise<Map<number, number>> {
  const reader = definePlugin({ id: 'reader', summary: 'Reads', stability: 'beta', capabilities: ['points'], setup() {} })
  const tree = { plugins: [], server: { http_addr: '127.0.0.1:0' }, database: { data_dir: dataDir } }
  const config = await resolveConfig({ tree: tree as never, file: 'the test', folder: dataDir, overrides: new Map() }, { plugins: [reader] })
  const node = new SvcNode(config, { logs: new Logs({ level: 'error', format: 'json', destination: { write() {} } }) })
  await node.setup()
  await node.start()
  const rows = new Map<number, number>()
  if (node.storage !== undefined) {
    for await (const { columns, times } of node.storage.scan({ namespace: '', measurement: 'fed' })) {
      const ids = columns[0].values as Float64Array
      for (let row = 0; row < times.length; row++) rows.set(ids[row], (rows.get(ids[row]) ?? 0) + 1)
    }
  }
  t.same(await node.stop(), [])
  return rows
}

t.test('whatever was acknowledged before a kill is there after it, and a message is there whole', { timeout: 120_000 }, async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-source-'))
  t.teardown(() => rm(dataDir, { recursive: true, force: true }))
  const acknowledged: number[] = []
  let first = 0
  for (const [enough, signal] of [
    [700, 'SIGKILL'],
    [40, 'SIGKILL'],
    [300, 'SIGTERM'],
  ] as const) {
    const ids = await feed(dataDir, first, enough, signal)
    t.ok(ids.length >= enough, `${ids.length} acknowledged, then ${signal}`)
    acknowledged.push(...ids)
    first = Math.max(...acknowledged) + 100_000
  }
  const rows = await stored(dataDir)
  t.same(
    acknowledged.filter((id) => rows.get(id) !== ROWS),
    [],
    'none is lost',
  )
  t.same(
    [...rows].filter(([, count]) => count !== ROWS),
    [],
    'none is there in part',
  )
  t.equal(new Set(acknowledged).size, acknowledged.length, 'each was acknowledged once')
})
