import type { Pos } from './ast.ts'

/** An expression that is well formed and cannot be evaluated; the text is what the client reads (error type "execution"). */
export class ExecutionError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'ExecutionError'
  }
}

/** Of a query above the memory it may hold, in the words of Prometheus. */
export const TOO_MANY_SAMPLES = 'query processing would load too many samples into memory in query execution'

/** An expression that makes no sense at the query's times: Prometheus refuses it as it refuses one that is not well formed. */
export class ExpressionError extends Error {
  private readonly pos: Pos
  private readonly reason: string

  constructor(pos: Pos, reason: string) {
    super(`${pos.start}:${pos.end}: ${reason}`)
    this.name = 'ExpressionError'
    this.pos = pos
    this.reason = reason
  }

  /** The text that the client reads: places are bytes of the query, from 0. */
  textIn(query: string): string {
    const byte = (offset: number): number => Buffer.byteLength(query.slice(0, offset))
    return `${byte(this.pos.start)}:${byte(this.pos.end)}: ${this.reason}`
  }
}

/** An evaluation that was stopped from outside; `reason` says whether by a time limit or by the client. */
export class QueryStoppedError extends Error {
  readonly reason: 'canceled' | 'timeout'

  constructor(reason: 'canceled' | 'timeout', where = 'expression evaluation') {
    super(reason === 'timeout' ? `query timed out in ${where}` : `query was canceled in ${where}`)
    this.name = 'QueryStoppedError'
    this.reason = reason
  }
}
