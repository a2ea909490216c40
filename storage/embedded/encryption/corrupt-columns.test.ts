/** Files of encrypted columns that are corrupt, or whose key is another one: noticed, named, and in no backup. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { MetricsRegistry } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { eventually } from '../../../test/support/until.ts'
import { testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'
import { inside } from '../testing/catalog-faults.ts'
import { NOW, NOW_MS, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

process.env.SVC_TEST_SEAL = Buffer.alloc(32, 1).toString('base64')
process.env.SVC_TEST_OTHER = Buffer.alloc(32, 2).toString('base64')
const SEALED = { field_encryption: { columns: { v: 'k' }, keys: { k: 'SVC_TEST_SEAL' } } }
const ROWS = 40

async function opened(t: Test, dir: string, config: object = {}) {
  const registry = new MetricsRegistry()
  const engine = new EmbeddedEngine({ ...testContext({ ...SEALED, ...config, data_dir: dir }, () => NOW_MS), metrics: registry.child('storage') })
  t.teardown(() => engine.close())
  await engine.open()
  return { engine, corrupted: async () => Number(/damaged_segments (\d+)/.exec(await registry.text())?.[1]) }
}

function sidecarOf(dir: string): string {
  const [name] = readdirSync(join(dir, 'segments'), { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.enc'))
  return join('segments', name)
}

/** A closed database of one segment, and a backup of it. The file is another one than that of the backup. */
async function sealed(t: Test) {
  const [dir, backups] = [tempDir(), tempDir()]
  t.teardown(() => {
    for (const one of [dir, backups]) rmSync(one, { recursive: true, force: true })
  })
  const { engine } = await opened(t, dir)
  for (let i = 0; i < ROWS; i++) await writeFloat(engine, 'm', `h${i % 3}`, NOW + BigInt(i), { v: i / 2, w: i / 3 })
  await engine.flush()
  const backup = join(backups, 'one')
  await engine.backup.create(backup)
  const rows = await rowsOf(engine, 'm')
  await engine.close()
  const sidecar = sidecarOf(dir)
  const flip = (): void => {
    const bytes = readFileSync(join(dir, sidecar))
    bytes[bytes.length >> 1] ^= 4
    rmSync(join(dir, sidecar))
    writeFileSync(join(dir, sidecar), bytes)
  }
  return { dir, backup, rows, sidecar, flip }
}

t.test('a flipped bit in encrypted columns is found by the background check, and no backup takes it', async (t) => {
  const { dir, backup, rows, sidecar, flip } = await sealed(t)
  flip()
  const { engine, corrupted } = await opened(t, dir, { segment_verification: 'background' })
  await eventually(async () => (await corrupted()) === 1)
  await t.rejects(rowsOf(engine, 'm'), { code: 'DATABASE_ERROR', message: /0000000001/ })
  await t.rejects(engine.backup.create(backup), { code: 'DATABASE_ERROR', message: /cannot back up segment .*it is corrupt/ })
  await engine.backup.verify(backup)
  await engine.close()
  await t.rejects(opened(t, dir), { code: 'DATABASE_ERROR', message: new RegExp(sidecar) }, 'the next start names the file')
  writeFileSync(join(dir, sidecar), readFileSync(join(backup, sidecar)))
  const { engine: restored } = await opened(t, dir)
  t.same(await rowsOf(restored, 'm'), rows, 'the older backup has it whole')
})

t.test('a backup that has taken corrupt columns does not verify', async (t) => {
  const { dir, backup, sidecar, flip } = await sealed(t)
  flip()
  const { engine } = await opened(t, dir, { segment_verification: 'off' })
  await engine.backup.create(backup)
  await t.rejects(engine.backup.verify(backup), { message: new RegExp(sidecar) })
})

t.test('encrypted columns of a server that noted no checksum get one at the first look', async (t) => {
  const { dir, rows, flip } = await sealed(t)
  const { engine: before } = await opened(t, dir)
  const { catalog } = inside(before)
  await catalog.amendSegment(1, { sidecarCrc: undefined })
  await before.close()
  const { engine } = await opened(t, dir, { segment_verification: 'background' })
  await eventually(async () => inside(engine).catalog.segments()[0].sidecarCrc !== undefined)
  t.same(await rowsOf(engine, 'm'), rows)
  await engine.close()
  flip()
  const { engine: again } = await opened(t, dir)
  await t.rejects(rowsOf(again, 'm'), { code: 'DATABASE_ERROR', message: /cannot read segment file/ })
})

const OTHER = { field_encryption: { columns: { v: 'k' }, keys: { k: 'SVC_TEST_OTHER' } } }

t.test('another key under the id of one that data was written with is refused before anything is written with it', async (t) => {
  const { dir, rows } = await sealed(t)
  await t.rejects(opened(t, dir, OTHER), {
    code: 'ENCRYPTION_KEY_UNAVAILABLE',
    message: /key "k": the environment variable SVC_TEST_OTHER holds another key than "segments.*\.enc" was written with/,
  })
  const beside = { field_encryption: { columns: { v: 'new' }, keys: { k: 'SVC_TEST_SEAL', new: 'SVC_TEST_OTHER' } } }
  const { engine } = await opened(t, dir, beside)
  await writeFloat(engine, 'm', 'h0', NOW + BigInt(ROWS), { v: 7 })
  await engine.flush()
  t.same(await rowsOf(engine, 'm'), [...rows, `h0 ${NOW + BigInt(ROWS)} v=7`].sort())
  await engine.close()
  const gone = await opened(t, dir, { field_encryption: { columns: { v: 'new' }, keys: { new: 'SVC_TEST_OTHER' } } })
  await t.rejects(rowsOf(gone.engine, 'm'), { code: 'ENCRYPTION_KEY_UNAVAILABLE', message: /"k"/ }, 'a key that is gone does not hold up a start')
})

t.test('a key that opens some of its segments is not refused, nor one whose only segment is corrupt', async (t) => {
  const { dir, flip } = await sealed(t)
  const { engine: first } = await opened(t, dir)
  await writeFloat(first, 'm', 'h0', NOW + BigInt(ROWS), { v: 7 })
  await first.close()
  flip()
  const { engine } = await opened(t, dir)
  await t.rejects(rowsOf(engine, 'm'), { code: 'DATABASE_ERROR' })
  await engine.close()
  const { dir: only, flip: corrupt } = await sealed(t)
  corrupt()
  const { engine: again } = await opened(t, only, { segment_verification: 'off' })
  await t.rejects(rowsOf(again, 'm'), { code: 'DATABASE_ERROR', message: /encrypted columns/ })
})
