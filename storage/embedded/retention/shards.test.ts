import t from 'tap'
import { INT64_MIN } from '../../common/time.ts'
import { shardsTaken, type Taken } from './shards.ts'

const taken = (minTime: bigint, maxTime: bigint, cutoff: bigint, before = INT64_MIN): Taken => ({ minTime, maxTime, cutoff, before })

t.test('shards that held data and went are counted, each once, and empty ones between are not', async (t) => {
  t.equal(shardsTaken([], 10n), 0)
  t.equal(shardsTaken([taken(5n, 905n, 700n)], 10n), 1, 'one old shard, and nothing up to now')
  t.equal(shardsTaken([taken(5n, 6n, 700n), taken(7n, 8n, 700n), taken(31n, 42n, 700n)], 10n), 3)
  t.equal(shardsTaken([taken(5n, 6n, 700n), taken(700n, 800n, 700n)], 10n), 1, 'what is kept does not count')
  t.equal(shardsTaken([taken(5n, 6n, 700n, 690n), taken(695n, 696n, 700n, 690n)], 10n), 1, 'nor does what went before')
  t.equal(shardsTaken([taken(5n, 905n, 700n, 690n)], 10n), 1, 'a file that reaches over both')
  t.equal(shardsTaken([taken(-5n, -4n, 0n)], 10n), 1)
})
