/**
 * The span that code runs in, through whatever it waits for. Where nothing is recorded nothing is ever entered here, and to ask costs a few nanoseconds
 * (current.bench.ts).
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Span, SpanOptions } from './span.ts'

const current = new AsyncLocalStorage<Span | undefined>()

/** Undefined where nothing is recorded. */
export function currentSpan(): Span | undefined {
  return current.getStore()
}

/** A span below the current one, which is not entered: for what begins here and ends in a callback. Whoever asks for it ends it. */
export function startSpan(name: string, options?: SpanOptions): Span | undefined {
  return current.getStore()?.child(name, options)
}

/** Runs work in a span, or outside of any, and leaves the span open. */
export function inSpan<T>(span: Span | undefined, work: () => T): T {
  return current.getStore() === span ? work() : current.run(span, work)
}

/** Runs work in a span, and ends it with the work: when what it returns is settled. */
export function runSpan<T>(span: Span, work: (span: Span) => T): T {
  let result: T
  try {
    result = current.run(span, work, span)
  } catch (error) {
    span.fail(error)
    span.end()
    throw error
  }
  if (result instanceof Promise) {
    result.then(
      () => span.end(),
      (error: unknown) => {
        span.fail(error)
        span.end()
      },
    )
  } else span.end()
  return result
}

/** Runs work in a span of its own below the current one; without one it just runs. */
export function traced<T>(name: string, work: (span: Span | undefined) => T, options?: SpanOptions): T {
  const span = current.getStore()?.child(name, options)
  return span === undefined ? work(undefined) : runSpan(span, work)
}
