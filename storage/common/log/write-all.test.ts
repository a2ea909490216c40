/** Writes that the disk takes in parts, not at all, or that a signal interrupts. */
import t from 'tap'
import type { FileSystem } from './file-system.ts'
import { writeAll, writeOnce } from './write-all.ts'

const BYTES = Uint8Array.from({ length: 10 }, (_, i) => i + 1)
const AT = 3

/** @param takes of each write: bytes that the disk takes, or why it takes none. @returns the file. */
function disk(...takes: (number | string)[]) {
  const file = new Uint8Array(AT + BYTES.length)
  const write: FileSystem['write'] = (_fd, bytes, offset, length, position, done) => {
    const take = takes.shift() ?? length
    if (typeof take === 'string') return done(Object.assign(new Error(take), { code: take }), 0)
    const count = Math.min(take, length)
    file.set(bytes.subarray(offset, offset + count), position)
    done(null, count)
  }
  return { file, fs: { write } }
}

const whole = [0, 0, 0, ...BYTES]

t.test('parts are carried on where they ended', async (t) => {
  const { file, fs } = disk(4, 'EINTR', 1, 'EAGAIN')
  const outcomes: unknown[] = []
  writeAll(fs, 1, BYTES, AT, (error) => outcomes.push(error))
  t.same(outcomes, [null])
  t.same([...file], whole)
})

t.test('a disk that takes nothing is full, whatever it has taken before', async (t) => {
  for (const takes of [[0], [4, 0]]) {
    const outcomes: unknown[] = []
    writeAll(disk(...takes).fs, 1, BYTES, AT, (error) => outcomes.push(error))
    t.match(outcomes, [{ code: 'ENOSPC' }])
    t.equal(outcomes.length, 1)
  }
})

t.test('any other error ends it', async (t) => {
  const outcomes: unknown[] = []
  writeAll(disk(4, 'EIO').fs, 1, BYTES, AT, (error) => outcomes.push(error))
  t.match(outcomes, [{ code: 'EIO' }])
  t.equal(outcomes.length, 1)
})

t.test('in one go: as many bytes as the disk took', async (t) => {
  for (const [takes, code, written] of [
    [['EINTR', 10], undefined, 10],
    [[4], undefined, 4],
    [[0], 'ENOSPC', 0],
    [['EIO'], 'EIO', 0],
  ] as const) {
    const outcomes: unknown[] = []
    writeOnce(disk(...takes).fs, 1, BYTES, AT, (error, bytes) => outcomes.push((error as NodeJS.ErrnoException | null)?.code, bytes))
    t.same(outcomes, [code, written])
  }
})
