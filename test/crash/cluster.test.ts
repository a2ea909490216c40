/** The short form of the loop of cluster.ts. */
import t from 'tap'
import { NO_POSTGRES, postgresBin } from '../support/postgres.ts'
import { clusterLoop } from './cluster.ts'

t.setTimeout(10_800_000)
const seed = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))
const events = Number(process.env.SVC_EVENTS ?? 8)
const nodes = Number(process.env.SVC_NODES ?? 3)

t.test(
  `nodes that share their state lose nothing and do nothing twice: SVC_SEED=${seed}`,
  { skip: postgresBin() === undefined ? NO_POSTGRES : false },
  async (t) => {
    const { sent, missing, behindFence, twice, twoSure, deaf, idle, ...rest } = await clusterLoop({ events, seed, nodes })
    t.comment(JSON.stringify(rest))
    t.ok(sent > 0 && rest.writes > 0 && rest.turns > 0, `${sent} points`)
    t.same({ missing, behindFence, twice, twoSure, deaf, idle }, { missing: 0, behindFence: 0, twice: 0, twoSure: 0, deaf: 0, idle: [] })
  },
)
