/** Checkpoints that cannot be cleared away or looked into. */
import { lstatSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { BackupService } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { boot, loadEngine, ManualClock, systemClock, type TestNode, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'
import { checkpointName } from './checkpoint-names.ts'

const HOUR = 3_600_000
const START = 1_700_000_000_000
const eio = () => Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })

interface Checkpoints {
  node: TestNode
  clock: ManualClock
  /** Names, each with whether it is finished. */
  there: Map<string, boolean>
  made: string[]
  warned(): Record<string, unknown>[]
  failures(): Promise<number>
}

/** A node whose storage keeps names only, with checkpoints every hour, of which one is kept. @param refuse called before one is removed and before they are listed. */
async function checkpoints(t: Test, there: Map<string, boolean>, refuse: (call: 'remove' | 'list', name: string) => void): Promise<Checkpoints> {
  const made: string[] = []
  const lines: string[] = []
  const nameOf = (directory: string) => directory.slice(directory.lastIndexOf('/') + 1)
  const backup: BackupService = {
    root: '/backups',
    directories: {
      resolve: async (path) => path,
      list: async () => {
        refuse('list', '')
        return [...there].map(([name, finished]) => ({ name, finished }))
      },
      remove: async (directory) => {
        refuse('remove', nameOf(directory))
        there.delete(nameOf(directory))
      },
    },
    create: async (directory) => {
      there.set(nameOf(directory), true)
      made.push(nameOf(directory))
      return { version: 1, createdAt: 0, files: 0, bytes: 0, statistics: {} }
    },
    verify: () => Promise.reject(new Error('not asked for')),
    restore: () => Promise.reject(new Error('not asked for')),
  }
  const { createEngine, capabilities } = await loadEngine('memory', '.')
  const engine = createEngine({ config: {}, now: Date.now } as never)
  const storage = Object.assign(engine, { capabilities: new Set([...capabilities, 'backup']), backup })
  const clock = new ManualClock(START)
  const config = { database: { checkpoints: { interval_secs: HOUR / 1000, keep: 1 } } }
  const node = await boot({ plugins: ['backup'], storage, clock, config, log: (line) => lines.push(line) })
  t.teardown(() => node.stop())
  return {
    ...{ node, clock, there, made },
    warned: () => lines.map((line) => JSON.parse(line)).filter(({ name, level }) => name === 'backup' && level !== 'info' && level !== 'debug'),
    failures: async () => Number(/^svc_backup_failures_total (\S+)/m.exec((await node.inject('/metrics')).body)?.[1]),
  }
}

const OLD = checkpointName(START - 2 * HOUR)
const OLDER = checkpointName(START - 3 * HOUR)

t.test('an old checkpoint that cannot be removed costs no other: they come an interval apart, and those that can be removed go', async (t) => {
  let broken = true
  const { clock, there, made, warned, failures } = await checkpoints(
    t,
    new Map([
      [OLDER, true],
      [OLD, true],
    ]),
    (call, name) => {
      if (broken && call === 'remove' && name === OLDER) throw eio()
    },
  )
  await clock.advance(HOUR / 2)
  t.same(made, [checkpointName(START)])
  t.same([...there.keys()], [OLDER, made[0]])
  await clock.advance(3 * HOUR)
  t.ok(made.length >= 3 && made.length <= 4, `${made.length} in three and a half hours`)
  t.same([...there.keys()], [OLDER, made.at(-1)])
  t.match(warned(), [{ checkpoint: OLDER, err: { message: 'EIO: i/o error' }, msg: /cannot remove a checkpoint/ }], 'it is logged once')
  t.equal(await failures(), 0, 'each was made')
  broken = false
  await clock.advance(2 * HOUR)
  t.same([...there.keys()], [made.at(-1)], 'it goes when it can')
})

t.test('an unfinished checkpoint that cannot be removed does not keep others from being made', async (t) => {
  const { clock, there, made, warned } = await checkpoints(t, new Map([[OLD, false]]), (call, name) => {
    if (call === 'remove' && name === OLD) throw eio()
  })
  await clock.advance(HOUR / 2)
  t.same(made, [checkpointName(START)])
  t.same([...there.keys()], [OLD, ...made])
  t.match(warned(), [{ checkpoint: OLD }])
})

t.test('a directory that cannot be listed is counted as a checkpoint that was not made; once it is made, it is no failure', async (t) => {
  let lists = 0
  let broken = (_: number) => false
  const { clock, made, failures, warned } = await checkpoints(t, new Map([[OLD, true]]), (call) => {
    if (call === 'list' && broken(++lists)) throw new SvcError('IO_ERROR', 'cannot list')
  })
  broken = () => true
  await clock.advance(1)
  t.same([made, await failures()], [[], 1])
  // Those before and beside it succeed, the one after it does not.
  lists = 0
  broken = (nth) => nth === 3
  await clock.advance(2 * 60_000)
  t.same([made.length, await failures()], [1, 1])
  await clock.advance(HOUR / 2)
  t.equal(made.length, 1)
  t.match(warned().at(-1), { msg: /cannot clear away old checkpoints/ })
})

t.test('a directory that cannot be looked into keeps no node from starting and no checkpoint from being made, and stays', async (t) => {
  const root = temporaryFolder(t)
  const directory = join(root, 'checkpoints')
  const bad = ['20200101T000000Z', 'other']
  for (const name of bad) {
    mkdirSync(join(directory, name), { recursive: true })
    // A link to itself: nobody can look behind it, root neither.
    symlinkSync('unfinished', join(directory, name, 'unfinished'))
  }
  let now = START
  const lines: string[] = []
  const node = await boot({
    plugins: ['backup'],
    storage: 'embedded',
    clock: { ...systemClock, now: () => now },
    config: { server: { backup_root: root }, database: { checkpoints: { interval_secs: 1, keep: 1 } } },
    log: (line) => lines.push(line),
  })
  t.teardown(() => node.stop())
  for (let made = 0; made < 3; made++) {
    await until('only the newest is there', () => readdirSync(directory).join() === [...bad, checkpointName(now)].sort().join())
    now += 1000
  }
  for (const name of bad) t.ok(lstatSync(join(directory, name, 'unfinished')).isSymbolicLink(), name)
  const warned = lines.map((line) => JSON.parse(line)).filter(({ name, level }) => name === 'backup' && level === 'warn')
  t.match(warned, [{ checkpoint: bad[0], msg: /cannot look into a checkpoint/ }], 'once, and only what is named like a checkpoint')
})
