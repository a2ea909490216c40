/**
 * What is paid where nothing is recorded, nanoseconds a call: node kernel/lib/trace/current.bench.ts
 */
import { currentSpan, startSpan, traced } from './current.ts'

const CALLS = 5_000_000
let sink = 0
const add = (): number => sink++

function measure(name: string, call: () => unknown): void {
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < 5; round++) {
    const began = performance.now()
    for (let i = 0; i < CALLS; i++) call()
    best = Math.min(best, performance.now() - began)
  }
  console.log(`${name.padEnd(24)} ${((best * 1e6) / CALLS).toFixed(1)} ns`)
}

measure('the work alone', add)
measure('currentSpan', currentSpan)
measure('startSpan', () => startSpan('a'))
measure('traced', () => traced('a', add))
