/** What the threads that fit compute, without a thread. */
import t from 'tap'
import { compute, type RefitResult, type Samples, type Trained } from './compute.ts'

const SECOND = 1_000_000_000n
const spec = { model: 'ses', parameters: {}, horizon: 1 }
const at = (seconds: readonly number[], value: (second: number) => number): Samples => ({
  times: BigInt64Array.from(seconds, (second) => BigInt(second) * SECOND),
  values: Float64Array.from(seconds, value),
})
const standing = ({ state, end, interval }: Trained) => ({ state, end, interval })
const noise = (i: number): number => (((i * 7919) % 13) - 6) / 3

t.test('a refit judges both on the same samples, and on no bridged ones', async (t) => {
  // A sample a second, then one in ten seconds: nine of ten steps are missing.
  const dense = Array.from({ length: 300 }, (_, i) => i)
  const thin = Array.from({ length: 60 }, (_, i) => 300 + 10 * i)
  const before = at(dense, noise)
  const all = at([...dense, ...thin], noise)
  const first = await compute({ kind: 'train', samples: before, spec, most: 1000 })
  const champion = standing((first as { trained: Trained }).trained)
  const { compared, trained } = (await compute({ kind: 'refit', samples: all, spec, champion, most: 1000 })) as RefitResult
  t.equal(trained.points, 360)
  t.ok(trained.bridged > 500, `${trained.bridged} steps are bridged`)
  t.equal(compared?.points, 60)
  t.equal(compared?.champion.points, 60)
  t.equal(compared?.challenger.points, 60)
  // The same kind of noise: neither forecasts it better. Straight lines between samples would be forecast far better.
  const gain = (compared?.challenger.rmse ?? 0) / (compared?.champion.rmse ?? 1)
  t.ok(gain > 0.9 && gain < 1.1, `${compared?.challenger.rmse} and ${compared?.champion.rmse}`)
})

t.test('a refit to samples of another step is compared by samples', async (t) => {
  const slow = Array.from({ length: 60 }, (_, i) => 4 * i)
  const fast = Array.from({ length: 240 }, (_, i) => 240 + i)
  const value = (second: number): number => (second < 240 ? 10 + noise(second) : 50 + noise(second))
  const first = await compute({ kind: 'train', samples: at(slow, value), spec: { ...spec, model: 'linear_regression' }, most: 1000 })
  const champion = standing((first as { trained: Trained }).trained)
  const samples = at([...slow, ...fast], value)
  const { compared } = (await compute({ kind: 'refit', samples, spec, champion, most: 1000 })) as RefitResult
  t.equal(compared?.points, 60)
  t.ok((compared?.champion.mae ?? 0) > 20, `the line goes on at ${compared?.champion.mae}`)
  t.ok((compared?.challenger.mae ?? 99) < 5, `the new one knows better: ${compared?.challenger.mae}`)
})

t.test('too few samples after a training are compared with nothing', async (t) => {
  const seconds = Array.from({ length: 50 }, (_, i) => i)
  const first = await compute({ kind: 'train', samples: at(seconds.slice(0, 47), noise), spec, most: 1000 })
  const champion = standing((first as { trained: Trained }).trained)
  const { compared, trained } = (await compute({ kind: 'refit', samples: at(seconds, noise), spec, champion, most: 1000 })) as RefitResult
  t.equal(compared, undefined)
  t.equal(trained.points, 50)
})
