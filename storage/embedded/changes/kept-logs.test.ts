/** Which files of the log stay for readers of changes, and for how long. */
import { basename } from 'node:path'
import t from 'tap'
import { walFileName, walFileSequence } from '../paths.ts'
import { KeptLogs } from './kept-logs.ts'

const MAX_BYTES = 300
const MAX_AGE_MS = 1000

/** Files of 100 bytes, of which the database needs the last. */
function kept({ files = [1, 2, 3, 4, 5, 6], followed = false } = {}) {
  const sizes = new Map(files.map((file) => [walFileName(file), 100]))
  const notes: boolean[] = []
  const state = { ms: 5000, floor: Math.max(...files), unfollowed: 0 }
  const note = {
    followed,
    noteFollowed: async (now: boolean) => {
      note.followed = now
      notes.push(now)
    },
  }
  const fs = {
    readdirSync: () => [...sizes.keys()],
    sizeSync: (path: string) => sizes.get(basename(path)),
    unlinkSync: (path: string) => void sizes.delete(basename(path)),
  }
  const logs = new KeptLogs({
    ...{ dir: 'wal', fs, note, maxBytes: MAX_BYTES, maxAgeMs: MAX_AGE_MS },
    log: { warn: (fields: unknown) => t.fail(JSON.stringify(fields)) },
    floor: () => state.floor,
    applied: () => 0,
    monotonic: () => state.ms,
  } as unknown as ConstructorParameters<typeof KeptLogs>[0])
  logs.unfollowed = () => void state.unfollowed++
  logs.begin()
  const there = () => [...sizes.keys()].map((name) => walFileSequence(name))
  return { logs, state, notes, there, add: (file: number) => void sizes.set(walFileName(file), 100) }
}

t.test('without readers nothing stays but what the database needs', async (t) => {
  const { logs, there, notes } = kept()
  logs.tidy()
  t.same(there(), [6])
  t.same(notes, [], 'and nothing is noted')
})

t.test('for a reader the newest stay, as many as have room', async (t) => {
  const { logs, there } = kept()
  logs.follow()
  logs.tidy()
  t.same(there(), [3, 4, 5, 6], 'three hundred bytes beside what the database needs')
})

t.test('a file goes when it is too old, also when its reader is still there', async (t) => {
  const { logs, state, there, add } = kept({ files: [1, 2] })
  logs.follow()
  logs.opened(2)
  state.ms += 600
  add(3)
  state.floor = 3
  logs.opened(3)
  logs.expire()
  logs.tidy()
  t.same(there(), [1, 2, 3])
  state.ms += 400
  logs.expire()
  t.same(there(), [1, 2, 3], 'as old as it may be')
  state.ms++
  logs.expire()
  t.same(there(), [2, 3])
  state.ms += 600
  logs.expire()
  t.same(there(), [3])
})

t.test('what a reader leaves stays for as long, and is given up then', async (t) => {
  const { logs, state, there, notes } = kept({ files: [1, 2] })
  logs.follow()
  logs.follow()
  logs.unfollow()
  logs.tidy()
  state.ms += MAX_AGE_MS - 100
  logs.unfollow()
  state.ms += 100
  logs.expire()
  t.same(there(), [1, 2])
  t.ok(logs.followed, 'it may come back')
  state.ms += MAX_AGE_MS - 99
  logs.expire()
  t.same(there(), [2])
  t.equal(state.unfollowed, 1)
  await logs.noting
  t.same(notes, [true, false], 'a restart knows it')
})

t.test('a start keeps what readers of the process before may come back for, for as long as a file may stay', async (t) => {
  const { logs, state, there, notes } = kept({ files: [1, 2], followed: true })
  state.ms += 600
  logs.expire()
  t.same(there(), [1, 2])
  logs.follow()
  state.ms += MAX_AGE_MS
  logs.expire()
  t.same(there(), [1, 2], 'its age is counted from the first look')
  state.ms++
  logs.expire()
  t.same(there(), [2])
  t.same(notes, [])
})

t.test('a full disk takes what is kept for readers, and nothing else', async (t) => {
  const { logs, there } = kept()
  logs.follow()
  logs.tidy()
  logs.giveUp()
  t.same(there(), [6])
})

t.test('files behind a hole are those that can be read', async (t) => {
  t.same(kept({ files: [1, 2, 4, 5] }).logs.files(), [4, 5])
  t.same(kept({ files: [3] }).logs.files(), [3])
})
