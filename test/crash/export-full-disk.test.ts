/** An export that finds no space, for its file or for its scratch file: refused, nothing left behind, and the next one works. */
import { readdirSync, rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import exporting from '../../plugins/export/index.ts'
import line from '../../plugins/line_protocol/index.ts'
import { SmallDisk } from './small-disk.ts'

const MEBIBYTES = 4
const ROWS = 5000

/** Why this process may not mount. */
async function refused(): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-mount-'))
  try {
    SmallDisk.mount(join(folder, 'probe'), 1).unmount()
    return undefined
  } catch (error) {
    return (error as Error).message.split('\n')[0]
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const reason = await refused()

for (const place of ['exports', 'tmp']) {
  t.test(`no space in ${place}/`, { skip: reason }, async (t) => {
    const node = await boot({ plugins: [exporting, line], storage: 'embedded' })
    const disk = SmallDisk.mount(join(node.dataDir, place), MEBIBYTES)
    t.teardown(async () => {
      disk.unmount()
      await node.stop()
    })
    const now = BigInt(Date.now()) * 1_000_000n
    const lines = Array.from({ length: ROWS }, (_, i) => `m,host=h${i % 10} f=${Math.random()},s="${Math.random()}${Math.random()}" ${now - BigInt(i) * 1000n}`)
    const written = await node.inject({ method: 'POST', url: '/write', payload: lines.join('\n') })
    t.equal(written.statusCode, 204, written.body)
    const exported = (name: string) =>
      node.inject({
        method: 'POST',
        url: '/api/v1/export/parquet',
        payload: JSON.stringify({ measurement: 'm', output_path: name }),
        headers: { 'content-type': 'application/json' },
      })
    const files = (folder: string): string[] => readdirSync(join(node.dataDir, folder)).filter((name) => name.includes('parquet'))
    // None at all, and enough to begin with.
    for (const leave of [0, 100_000]) {
      disk.fill(leave)
      const full = await exported('full')
      t.match([full.statusCode, full.json().code, full.headers['retry-after']], [507, 'STORAGE_FULL', '5'], full.body)
      t.same([...files('exports'), ...files('tmp')], [], 'nothing is left behind')
      disk.release()
    }
    const done = await exported('full')
    t.match(done.json(), { rows_written: ROWS, truncated: false }, done.body)
    t.same(files('exports'), ['full.parquet'])
    t.same(files('tmp'), [])
  })
}
