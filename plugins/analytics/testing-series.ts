/** Series of known kinds for tests: random by a seed, the same everywhere. */

/** Uniform in [0, 1), by xorshift. */
export function uniform(seed: number): () => number {
  let s = seed * 2654435761 || 1
  return () => {
    s ^= s << 13
    s ^= s >>> 17
    s ^= s << 5
    return (s >>> 0) / 4294967296
  }
}

export function normal(seed: number): () => number {
  const next = uniform(seed)
  for (let i = 0; i < 10; i++) next()
  return () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next())
}

type Shock = () => number
const KINDS = {
  noise: (shock: Shock) => () => 50 + 5 * shock(),
  walk: (shock: Shock) => {
    let v = 100
    return () => (v += shock())
  },
  trend: (shock: Shock) => (i: number) => 20 + 0.3 * i + 2 * shock(),
  ar: (shock: Shock) => {
    let v = 0
    return () => 30 + (v = 0.7 * v + shock())
  },
  arma: (shock: Shock) => {
    let [v, before] = [0, 0]
    return () => {
      const e = shock()
      v = 0.5 * v + e + 0.4 * before
      before = e
      return 10 + v
    }
  },
  arima: (shock: Shock) => {
    let [v, change, before] = [200, 0, 0]
    return () => {
      const e = shock()
      change = 0.5 * change + e + 0.3 * before
      before = e
      return (v += change)
    }
  },
  level: (shock: Shock) => {
    let v = 40
    return () => {
      v += 0.3 * shock()
      return v + 2 * shock()
    }
  },
  season: (shock: Shock) => (i: number) => 100 + 10 * Math.sin((2 * Math.PI * i) / 12) + 4 * Math.cos((4 * Math.PI * i) / 12) + 2 * shock(),
  season_trend: (shock: Shock) => (i: number) => 60 + 0.2 * i + 8 * Math.sin((2 * Math.PI * i) / 12) + 1.5 * shock(),
  season_multiplied: (shock: Shock) => (i: number) => (50 + 0.4 * i) * (1 + 0.3 * Math.sin((2 * Math.PI * i) / 12)) * (1 + 0.03 * shock()),
}
export type Kind = keyof typeof KINDS
export const KIND_NAMES = Object.keys(KINDS) as Kind[]
export const SEASONAL: ReadonlySet<string> = new Set<Kind>(['season', 'season_trend', 'season_multiplied'])

/** Rounded to six decimals, so that a file of them is the series. */
export function seriesOf(kind: Kind, n: number, seed: number): Float64Array {
  const value = KINDS[kind](normal(seed))
  return Float64Array.from({ length: n }, (_, i) => Math.round(value(i) * 1e6) / 1e6)
}
