/** What a start makes of the log: what it accepts is durable before anything builds on it, what was torn is told from what is corrupt. */

import { crc32c } from 'svcdb/lib/files'
import t from 'tap'
import { FRAME_HEADER, type FsyncPolicy } from '../../common/log/log.ts'
import { walFileName } from '../paths.ts'
import { failure, LogDisk } from '../testing/log-disk.ts'
import { LogProcess, recordsOn } from '../testing/log-process.ts'
import { FILE_MAGIC } from './form.ts'

const PER_BATCH: FsyncPolicy = { kind: 'per_batch' }
const PERIODIC: FsyncPolicy = { kind: 'periodic', ms: 1000 }
const SECTOR = 512
/** Nothing that was not synced survives a power cut; calls end in their order. */
const FORGETFUL = (): number => 0

/** The files after these many records of `words` numbers, all acknowledged, and a kill. @param each called after each. */
async function written(
  policy: FsyncPolicy,
  records: number,
  words = 3,
  each: (disk: LogDisk, log: LogProcess, record: number) => void = () => {},
): Promise<LogDisk> {
  const disk = new LogDisk(FORGETFUL)
  const log = new LogProcess(disk, policy)
  await log.start()
  for (let record = 1; record <= records; record++) {
    log.append(record, words)
    log.settle()
    each(disk, log, record)
    log.settle()
  }
  disk.kill()
  return disk
}

/** Offsets of the frames, and the end. */
function frames(bytes: Uint8Array): number[] {
  const view = new DataView(bytes.buffer)
  const found: number[] = [FILE_MAGIC.length]
  for (let at = FILE_MAGIC.length; at < bytes.length; ) found.push((at += FRAME_HEADER + view.getUint32(at, true)))
  return found
}

const only = (disk: LogDisk): Uint8Array => (disk.files.get(walFileName(1)) as Uint8Array).slice()

/** A disk with nothing but this file, durable. */
function holding(bytes: Uint8Array): LogDisk {
  const disk = new LogDisk(FORGETFUL)
  disk.put(walFileName(1), bytes)
  return disk
}

t.test('what a kill left unsynced is durable before anything builds on it', async (t) => {
  const disk = await written(PERIODIC, 2)
  const log = new LogProcess(disk, PER_BATCH)
  t.same(await log.start(), [1, 2])
  log.append(3)
  log.settle()
  disk.powerCut()
  t.same(recordsOn(disk), [1, 2, 3])
})

t.test('so is the truncation of a torn tail', async (t) => {
  const bytes = only(await written(PER_BATCH, 2))
  const disk = holding(bytes.slice(0, -3))
  const log = new LogProcess(disk, PER_BATCH)
  t.same(await log.start(), [1])
  log.append(3)
  log.settle()
  disk.powerCut()
  t.same(recordsOn(disk), [1, 3], 'the tail is not back, before a later file')
})

t.test('so is a whole directory that was copied and never synced', async (t) => {
  const bytes = only(await written(PER_BATCH, 2))
  const disk = new LogDisk(FORGETFUL)
  const [, second] = frames(bytes)
  for (const [name, content] of [
    [walFileName(1), bytes.slice(0, second)],
    [walFileName(2), Buffer.concat([FILE_MAGIC, bytes.slice(second)])],
  ] as const) {
    const fd = disk.fs.openSync(name, 'wx')
    disk.fs.writeSync(fd, content)
    disk.fs.closeSync(fd)
  }
  const log = new LogProcess(disk, PER_BATCH)
  await log.start()
  log.append(3)
  log.settle()
  disk.powerCut()
  t.same(recordsOn(disk), [1, 2, 3])
})

t.test('a sync that fails refuses the start, and the next start does not trust one that succeeds over clean pages', async (t) => {
  for (const call of ['fsyncSync', 'write'] as const) {
    const disk = await written(PERIODIC, 2)
    disk.fault = (one) => (one === call ? failure('EIO') : undefined)
    const message = /cannot make write-ahead log file "000000000001.wal" durable: EIO; what was read may not be on the disk/
    await t.rejects(new LogProcess(disk, PER_BATCH).start(), { code: 'DATABASE_ERROR', message }, call)
    disk.fault = () => undefined
    disk.kill()
    const log = new LogProcess(disk, PER_BATCH)
    t.same(await log.start(), [1, 2])
    log.append(3)
    log.settle()
    disk.powerCut()
    t.same(recordsOn(disk), [1, 2, 3])
  }
})

t.test('a directory that cannot be synced refuses the start', async (t) => {
  const disk = await written(PER_BATCH, 1)
  disk.fault = (call, name) => (call === 'fsyncSync' && name === 'wal' ? failure('EIO') : undefined)
  await t.rejects(new LogProcess(disk, PER_BATCH).start(), { code: 'DATABASE_ERROR', message: /cannot make directory "wal" durable/ })
})

t.test('what a failed periodic sync has lost is written again by the restart', async (t) => {
  const disk = await written(PERIODIC, 3, 200, (disk, log, record) => {
    if (record < 3) return
    disk.fault = (call) => (call === 'fdatasync' ? failure('EIO') : undefined)
    disk.tick()
    log.settle()
    disk.fault = () => undefined
  })
  const log = new LogProcess(disk, PER_BATCH)
  t.same(await log.start(), [1, 2, 3])
  log.append(4)
  log.settle()
  disk.powerCut()
  t.same(recordsOn(disk), [1, 2, 3, 4])
})

t.test('a header that a failed sync has lost is written again, too', async (t) => {
  const disk = new LogDisk(FORGETFUL)
  disk.fault = (call, name) => (call === 'unlinkSync' || (call === 'fsyncSync' && name !== 'wal') ? failure('EIO') : undefined)
  await t.rejects(new LogProcess(disk, PER_BATCH).start(), { code: 'OVERLOADED' })
  disk.fault = () => undefined
  disk.kill()
  const log = new LogProcess(disk, PER_BATCH)
  await log.start()
  log.append(1)
  log.settle()
  disk.powerCut()
  t.same(recordsOn(disk), [1])
})

t.test('periodic: an unsynced sector that is lost, before one that is kept, is a torn tail', async (t) => {
  for (const between of ['kept', 'synced before'] as const) {
    const bytes = only(await written(PERIODIC, 6, 200, (disk, _, record) => void (between === 'synced before' && record === 2 && disk.tick())))
    const [, , third, fourth] = frames(bytes)
    const lost = Math.ceil(third / SECTOR) * SECTOR
    t.ok(lost + SECTOR <= fourth)
    bytes.fill(0, lost, lost + SECTOR)
    const disk = holding(bytes)
    t.same(await new LogProcess(disk, PERIODIC).start(), [1, 2], between)
  }
})

t.test('periodic: a sector that is lost from what was synced is corruption', async (t) => {
  const bytes = only(await written(PERIODIC, 6, 200, (disk, _, record) => void (record === 4 && disk.tick())))
  const [, , third] = frames(bytes)
  const lost = Math.ceil(third / SECTOR) * SECTOR
  bytes.fill(0, lost, lost + SECTOR)
  const disk = holding(bytes)
  await t.rejects(new LogProcess(disk, PERIODIC).start(), { code: 'DATABASE_ERROR', message: new RegExp(`000000000001\\.wal" at offset ${third}:`) })
  t.same(only(disk), bytes, 'and nothing is cut off')
})

t.test('also when the header of its frame is lost', async (t) => {
  for (const synced of [false, true]) {
    const bytes = only(await written(PERIODIC, 6, 200, (disk, _, record) => void (synced && record === 5 && disk.tick())))
    const starts = frames(bytes)
    const [, , third] = starts
    bytes.fill(0, third, Math.ceil((third + 1) / SECTOR) * SECTOR)
    const start = new LogProcess(holding(bytes), PERIODIC).start()
    if (synced) await t.rejects(start, { code: 'DATABASE_ERROR', message: new RegExp(`offset ${third}:`) })
    else t.same(await start, [1, 2])
  }
})

t.test('bytes inside a torn record that look like a later frame prove nothing', async (t) => {
  const bytes = only(await written(PER_BATCH, 2, 600))
  const [, second, end] = frames(bytes)
  // As a client could put them into a value.
  const at = end - 200
  const view = new DataView(bytes.buffer)
  view.setUint32(at, 100, true)
  view.setUint32(at + 8, second + 1, true)
  view.setUint32(at + 12, crc32c(bytes, at, at + 12), true)
  view.setUint32(second + 4, crc32c(bytes, second + FRAME_HEADER, end), true)
  view.setUint32(second + 12, crc32c(bytes, second, second + 12), true)
  const lost = Math.ceil((second + FRAME_HEADER) / SECTOR) * SECTOR
  bytes.fill(0, lost, lost + SECTOR)
  t.same(await new LogProcess(holding(bytes), PER_BATCH).start(), [1])
})

t.test('a file with the same record again is corrupt', async (t) => {
  const bytes = only(await written(PER_BATCH, 1))
  const disk = holding(bytes)
  disk.put(walFileName(2), bytes)
  await t.rejects(new LogProcess(disk, PER_BATCH).start(), { code: 'DATABASE_ERROR', message: /000000000002\.wal" at offset 8: record 1 comes after record 1/ })
})

t.test('a header that is neither whole nor unwritten is corrupt, and one that is missing before other files', async (t) => {
  const disk = holding(new TextEncoder().encode('SVCWAL09'))
  await t.rejects(new LogProcess(disk, PER_BATCH).start(), { message: /at offset 0: it does not begin with SVCWAL01/ })
  const two = holding(new Uint8Array(4))
  two.put(walFileName(2), only(await written(PER_BATCH, 1)))
  await t.rejects(new LogProcess(two, PER_BATCH).start(), { message: /000000000001\.wal" at offset 0: the file is shorter than its header/ })
})

/** Two records in the first file, one in the second. */
async function twoFiles(): Promise<{ first: Uint8Array; second: Uint8Array }> {
  const disk = new LogDisk(FORGETFUL)
  const log = new LogProcess(disk, PER_BATCH)
  await log.start()
  for (const record of [1, 2]) {
    log.append(record)
    log.settle()
  }
  await disk.run(log.rotate())
  log.append(3)
  log.settle()
  disk.kill()
  return { first: only(disk), second: (disk.files.get(walFileName(2)) as Uint8Array).slice() }
}

t.test('a file that ends within a record is corrupt where another follows: what is in that came later', async (t) => {
  const { first, second } = await twoFiles()
  const [, , end] = frames(first)
  for (let cut = 1; cut < end - frames(first)[1]; cut += 7) {
    const disk = holding(first.subarray(0, first.length - cut))
    disk.put(walFileName(2), second)
    await t.rejects(new LogProcess(disk, PER_BATCH).start(), { code: 'DATABASE_ERROR', message: /000000000001\.wal" at offset/ })
    t.equal(disk.files.get(walFileName(1))?.length, first.length - cut, 'and stays as it is')
  }
})

t.test('files are read in their order, whatever the directory says', async (t) => {
  const { first, second } = await twoFiles()
  const disk = new LogDisk(FORGETFUL)
  disk.put(walFileName(2), second)
  disk.put(walFileName(1), first)
  t.same(await new LogProcess(disk, PER_BATCH).start(), [1, 2, 3])
})

t.test('a file that the disk does not give is named: the error of a read does not say of which file', async (t) => {
  const disk = await written(PER_BATCH, 2)
  disk.fault = (call) => (call === 'readFileSync' ? Object.assign(new Error('EIO: i/o error, read'), { code: 'EIO', syscall: 'read' }) : undefined)
  await t.rejects(new LogProcess(disk, PER_BATCH).start(), {
    code: 'IO_ERROR',
    message: /^cannot read write-ahead log file "000000000001\.wal": EIO: i\/o error, read; see whether the disk is sound/,
  })
  disk.fault = () => undefined
  t.same(await new LogProcess(disk, PER_BATCH).start(), [1, 2])
})
