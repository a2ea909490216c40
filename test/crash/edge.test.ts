/** The short form of the loop of edge.ts: npm test runs it. */
import t from 'tap'
import { edgeLoop } from './edge.ts'

t.setTimeout(10_800_000)
const MIB = 2 ** 20
/** Of an edge whose link is never away for longer than a second: twice what it has at rest, and what waits for some seconds; neither grows with time. */
const MOST_MEMORY = 200 * MIB
const MOST_DISK = 16 * MIB
const seed = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))

t.test(`nothing is lost between an edge and its upstream: SVC_SEED=${seed}`, async (t) => {
  const points = Number(process.env.SVC_POINTS ?? 20_000)
  const { events, memory: _memory, disk: _disk, ...outcome } = await edgeLoop({ points, seed, pauseMs: 500 })
  t.comment(JSON.stringify(events))
  t.same(outcome, { sent: points, stored: points, different: points, wrong: 0, setAside: 0, dropped: 0 })
})

t.test(`a flapping link: SVC_SEED=${seed}`, async (t) => {
  const linkOnlyMs = Number(process.env.SVC_MINUTES ?? 0.1) * 60_000
  const { events, sent, memory, disk, ...outcome } = await edgeLoop({ points: 0, seed, pauseMs: 800, linkOnlyMs })
  t.comment(`${sent} points, at most ${Math.round(memory / MIB)} MiB of memory and ${(disk / MIB).toFixed(1)} of the disk, ${JSON.stringify(events)}`)
  t.ok(sent > 0)
  t.ok(memory < MOST_MEMORY, `${memory} bytes of memory`)
  t.ok(disk > 0 && disk < MOST_DISK, `${disk} bytes of the disk`)
  t.same(outcome, { stored: sent, different: sent, wrong: 0, setAside: 0, dropped: 0 })
})
