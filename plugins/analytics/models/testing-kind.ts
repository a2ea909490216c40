/** A kind of model as a plugin would bring it: the value of a season ago. */
import type { ModelKind } from 'svcdb'

interface State {
  season: number
  last: number[]
  spread: number
}

const naive: ModelKind<State> = {
  fit(values, { season = 1 }) {
    if (typeof season !== 'number' || season < 1) throw new Error('a season is at least 1')
    const fitted = values.map((_, i) => (i < season ? Number.NaN : values[i - season]))
    let squares = 0
    for (let i = season; i < values.length; i++) squares += (values[i] - fitted[i]) ** 2
    return { state: { season, last: Array.from(values.subarray(-season)), spread: Math.sqrt(squares / Math.max(1, values.length - season)) }, fitted }
  },
  predict({ season, last, spread }, horizon) {
    return {
      values: Float64Array.from({ length: horizon }, (_, h) => last[h % season]),
      std: Float64Array.from({ length: horizon }, (_, h) => spread * Math.sqrt(1 + Math.floor(h / season))),
    }
  },
  follow(state, values) {
    const last = [...state.last]
    const fitted = values.map((v) => {
      const forecast = last.shift() as number
      last.push(Number.isNaN(v) ? forecast : v)
      return forecast
    })
    return { state: { ...state, last }, fitted }
  },
}

export default naive
