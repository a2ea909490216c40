import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { crc32c } from 'svcdb/lib/files'
import t from 'tap'
import { WHOLE } from '../../common/change-places.ts'
import { ByteWriter } from '../../common/log/bytes.ts'
import { realFileSystem } from '../../common/log/file-system.ts'
import { FRAME_HEADER } from '../../common/log/log.ts'
import { walFileName } from '../paths.ts'
import { tempDir } from '../testing/harness.ts'
import { encodeChange } from '../wal/change-record.ts'
import { FILE_MAGIC } from '../wal/form.ts'
import { LogReader } from './log-reader.ts'

function frame(sequence: number): Uint8Array {
  const payload = new ByteWriter()
  encodeChange(payload, sequence, { kind: 'restore', measurement: 1, owner: ['', 'm'] })
  const bytes = new Uint8Array(FRAME_HEADER + payload.length)
  bytes.set(payload.bytes.subarray(0, payload.length), FRAME_HEADER)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, payload.length, true)
  view.setUint32(4, crc32c(bytes, FRAME_HEADER, bytes.length), true)
  view.setUint32(12, crc32c(bytes, 0, 12), true)
  return bytes
}

/** A reader of files by number with the sequences of their records. */
function reader(files: Record<number, number[]>): LogReader {
  const dir = join(tempDir(), 'wal')
  mkdirSync(dir)
  t.teardown(() => rmSync(dirname(dir), { recursive: true }))
  for (const [number, sequences] of Object.entries(files))
    writeFileSync(join(dir, walFileName(Number(number))), Buffer.concat([FILE_MAGIC, ...sequences.map(frame)]))
  const logs = { files: () => Object.keys(files).map(Number), startOf: () => undefined, learn: () => {} }
  const options = { dir, fs: realFileSystem, logs, names: {}, keys: undefined, turn: async () => {} }
  return new LogReader(options as unknown as ConstructorParameters<typeof LogReader>[0])
}

const next = async (files: Record<number, number[]>, after: number, until = 100) => {
  const made = reader(files)
  const found = await made.next({ sequence: after, part: WHOLE }, until)
  made.close()
  return typeof found === 'string' || 'unreadable' in found ? found : found.sequence
}

t.test('it begins in the file that has what follows', async (t) => {
  const files = { 1: [3, 4], 2: [5, 6], 3: [], 4: [7] }
  for (const [after, found] of [
    [2, 3],
    [3, 4],
    [4, 5],
    [6, 7],
  ])
    t.equal(await next(files, after), found, `after ${after}`)
  t.equal(await next(files, 7, 7), 'end')
})

t.test('what is gone is lost, and not passed over', async (t) => {
  t.equal(await next({ 4: [7] }, 4), 'lost')
  t.equal(await next({ 3: [], 4: [7] }, 4), 'lost', 'behind files without records too')
  t.equal(await next({ 2: [], 3: [], 4: [7], 5: [8] }, 5), 'lost')
  t.equal(await next({ 2: [], 3: [], 4: [7], 5: [8] }, 6), 7, 'nothing is gone')
  t.equal(await next({}, 4), 'lost')
})
