/**
 * Logs: pino with one level for the whole node that can change at run time, as JSON, as text for people, or compact for a journal
 * that stamps lines itself. Nothing is logged per row, and requests only at debug. Whatever text of others an entry has, it stays one line, in text
 * with the frames of a stack indented below it.
 */
import { Writable } from 'node:stream'
import { type DestinationStream, type Logger, pino } from 'pino'
import { printable } from './lib/text/index.ts'
import { currentSpan } from './lib/trace/index.ts'

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]
export const LOG_FORMATS = ['text', 'json', 'compact'] as const
export type LogFormat = (typeof LOG_FORMATS)[number]
export type { Logger }

/** Members whose values never reach a log, wherever a caller hands in an object with them. */
const REDACTED = ['authorization', 'password', 'secret', 'token', 'api_key'].flatMap((name) => [name, `*.${name}`, `*.*.${name}`])

/** What is kept of lines that standard error has no room for, in bytes; they come out before the next that it takes. Further ones are lost. */
const HELD_BYTES = 1 << 20

/** A file behind it whose disk is full is no reason for the server to end: a log is often on the disk that it tells of. */
function standardError(): DestinationStream {
  const output = pino.destination({ dest: 2, sync: true, maxLength: HELD_BYTES })
  output.on('error', () => {})
  return output
}

export class Logs {
  readonly root: Logger
  private readonly children = new Map<string, Logger>()

  constructor(options: { level: LogLevel; format: LogFormat; destination?: DestinationStream }) {
    const output = options.destination ?? standardError()
    const stream = options.format === 'json' ? { write: (line: string) => output.write(jsonLine(line)) } : new TextLines(output, options.format)
    this.root = pino(
      {
        level: options.level,
        base: undefined,
        redact: { paths: REDACTED, censor: '[redacted]' },
        formatters: { level: (label) => ({ level: label }) },
        timestamp: pino.stdTimeFunctions.isoTime,
        mixin: traceOf,
      },
      stream,
    )
  }

  child(name: string): Logger {
    let child = this.children.get(name)
    if (child === undefined) {
      child = this.root.child({ name })
      this.children.set(name, child)
    }
    return child
  }

  get level(): LogLevel {
    return this.root.level as LogLevel
  }

  /** Children keep a level of their own in pino, so each is set. */
  set level(level: LogLevel) {
    this.root.level = level
    for (const child of this.children.values()) child.level = level
  }
}

/** The trace that an entry is of, where one is recorded. */
function traceOf(): object {
  const span = currentSpan()
  return span === undefined ? {} : { trace_id: span.traceId, span_id: span.spanId }
}

/** Turns pino's JSON lines into text: time, level, name, message, then members as key=value. */
class TextLines extends Writable {
  private readonly output: DestinationStream
  private readonly format: LogFormat

  constructor(output: DestinationStream, format: LogFormat) {
    super({ decodeStrings: false })
    this.output = output
    this.format = format
  }

  override _write(line: string | Buffer, _encoding: string, done: () => void): void {
    this.output.write(renderLine(JSON.parse(line.toString()), this.format))
    done()
  }
}

function renderLine(entry: Record<string, unknown>, format: LogFormat): string {
  const { level, time, name, msg, err, ...rest } = entry
  const head = format === 'compact' ? '' : `${time} `
  let line = `${head}${String(level).toUpperCase().padEnd(5)} ${name === undefined ? '' : `${name}: `}${msg ?? ''}`
  for (const [key, value] of Object.entries(rest)) line += ` ${key}=${typeof value === 'string' ? quoteIfNeeded(value) : JSON.stringify(value)}`
  const error = err as { message?: string; stack?: string } | undefined
  if (error !== undefined && format === 'compact') line += ` err=${quoteIfNeeded(String(error.message))}`
  const stack = error === undefined || format === 'compact' ? '' : stackLines(String(error.stack ?? error.message))
  return `${printable(line)}${stack}\n`
}

const FRAME = /^ {4}at /
const CAUSE = /^caused by: /

/** One line for each error and each frame, none of which begins as an entry does: the line breaks of a message are escaped. */
function stackLines(stack: string): string {
  let text = ''
  for (const line of stack.split('\n')) {
    if (text === '' || CAUSE.test(line)) text += `\n  ${printable(line)}`
    else text += FRAME.test(line) ? `\n${printable(line)}` : `\\n${printable(line)}`
  }
  return text
}

/** JSON leaves C1 controls and those of direction as they are. */
function jsonLine(line: string): string {
  return `${printable(line.trimEnd())}\n`
}

function quoteIfNeeded(text: string): string {
  return /^[\w./:@+-]+$/.test(text) ? text : JSON.stringify(text)
}
