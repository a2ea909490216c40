/** Memory of memtables goes back once writes rest: also what engine threads were handed when they started (storage/embedded/threads/worker/main.ts). */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { accountOf } from '../support/memory.ts'
import { runServer } from '../support/server.ts'

t.setTimeout(120_000)

const MIB = 1 << 20
const ROWS = 5000
const SERIES = 1000
const CONFIG = `plugins = ["line_protocol", "sql", "promql"]
[database]
memtable_flush_threshold = ${16 * MIB}
`
/** Requests until a memtable is two thirds full. */
const FIRST = 30
/** For two more. */
const MORE = 100
/** Of the memtable that is written there are slabs of 2 MiB. */
const LEFT = 16 * MIB
const LOOKS = 60
const LOOK_MS = 500

t.test('memory of memtables that are flushed is nobody’s when writes rest', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-given-back-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'svc.toml'), CONFIG)
  const server = await runServer(join(folder, 'svc.toml'))
  t.teardown(() => server.stop())
  /** Of memtables, free or not, and of buffers that have no other name. */
  const buffers = async (): Promise<number> => {
    const { consumers } = await accountOf(server)
    t.comment(
      Object.entries(consumers)
        .map(([name, bytes]) => `${name} ${Math.round(bytes / MIB)}`)
        .join(', '),
    )
    return consumers.memtable + consumers.memtable_free + consumers.buffers_main
  }
  let row = 0
  const write = async (requests: number): Promise<void> => {
    for (let request = 0; request < requests; request++) {
      // No number is whole: small ones take less than 8 bytes.
      const lines = Array.from(
        { length: ROWS },
        () => `cpu,host=h${row % SERIES} a=${row % 100}.5,b=${row % 7}.5,c=${row}.5 ${1_700_000_000_000 + row++}000000`,
      )
      t.equal((await fetch(`${server.url}/write`, { method: 'POST', body: lines.join('\n') })).status, 204)
    }
  }
  const before = await buffers()
  await write(FIRST)
  // The threads that flush and that answer have both been handed a memtable with rows.
  const query = encodeURIComponent('count({__name__="cpu_a"})')
  t.equal((await fetch(`${server.url}/api/v1/query?query=${query}&time=1700000000`)).status, 200)
  await write(MORE)
  const most = await buffers()
  t.ok(most > before + 2 * LEFT, 'there is something to give back')
  let left = most
  for (let look = 0; look < LOOKS && left > before + LEFT; look++) {
    await sleep(LOOK_MS)
    left = await buffers()
  }
  t.ok(left <= before + LEFT, `${Math.round(before / MIB)} MiB before, ${Math.round(most / MIB)} at most, ${Math.round(left / MIB)} left`)
})
