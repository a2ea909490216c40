/**
 * The one table of error codes. Every listener maps a code to its own wire from here; texts are written where the error is thrown.
 * `redact`: the fault is the server's own, so the text goes to the log and the caller reads "<CODE>: an internal error occurred".
 */
// Whoever loads anything of this package loads this: a second copy of it makes itself known.
import '../modules/index.ts'

/** What listeners make of a code. With `redact` the text goes to the log, and the caller reads that there was an internal error. */
export interface ErrorKind {
  http: number
  /** gRPC status number, grpc/status.proto. */
  grpc: number
  /** Seconds for Retry-After. */
  retryAfter?: number
  redact?: boolean
}

const INVALID_ARGUMENT = 3
const DEADLINE_EXCEEDED = 4
const NOT_FOUND = 5
const ALREADY_EXISTS = 6
const PERMISSION_DENIED = 7
const RESOURCE_EXHAUSTED = 8
const FAILED_PRECONDITION = 9
const INTERNAL = 13
const UNAVAILABLE = 14
const UNAUTHENTICATED = 16

const bad: ErrorKind = { http: 400, grpc: INVALID_ARGUMENT }
const fault: ErrorKind = { http: 500, grpc: INTERNAL, redact: true }

/** The codes that every node knows. When each is thrown: docs/reference/errors.md. */
export const ERRORS = {
  BAD_REQUEST: bad,
  INVALID_REQUEST: bad,
  SCHEMA_ERROR: bad,
  INVALID_POINT: bad,
  PARTIAL_WRITE: bad,
  FUTURE_TIMESTAMP: bad,
  SQL_ERROR: bad,
  PROMQL_ERROR: bad,
  CARDINALITY_EXCEEDED: { http: 400, grpc: RESOURCE_EXHAUSTED },
  UNAUTHORIZED: { http: 401, grpc: UNAUTHENTICATED },
  FORBIDDEN: { http: 403, grpc: PERMISSION_DENIED },
  NOT_FOUND: { http: 404, grpc: NOT_FOUND },
  METHOD_NOT_ALLOWED: { http: 405, grpc: INVALID_ARGUMENT },
  CONFLICT: { http: 409, grpc: ALREADY_EXISTS },
  PRECONDITION_FAILED: { http: 412, grpc: FAILED_PRECONDITION },
  PAYLOAD_TOO_LARGE: { http: 413, grpc: RESOURCE_EXHAUSTED },
  UNSUPPORTED_MEDIA_TYPE: { http: 415, grpc: INVALID_ARGUMENT },
  INVALID_BODY: { http: 422, grpc: INVALID_ARGUMENT },
  RATE_LIMITED: { http: 429, grpc: RESOURCE_EXHAUSTED, retryAfter: 1 },
  DATABASE_ERROR: fault,
  INTERNAL_ERROR: fault,
  CONFIG_ERROR: fault,
  TLS_ERROR: fault,
  IO_ERROR: fault,
  ENCRYPTION_KEY_UNAVAILABLE: { http: 500, grpc: FAILED_PRECONDITION },
  BACKPRESSURE: { http: 503, grpc: UNAVAILABLE, retryAfter: 1 },
  OVERLOADED: { http: 503, grpc: UNAVAILABLE, retryAfter: 60 },
  DATABASE_CLOSED: { http: 503, grpc: UNAVAILABLE },
  WRITE_TIMEOUT: { http: 504, grpc: DEADLINE_EXCEEDED },
  QUERY_TIMEOUT: { http: 504, grpc: DEADLINE_EXCEEDED },
  STORAGE_FULL: { http: 507, grpc: RESOURCE_EXHAUSTED, retryAfter: 5 },
} as const satisfies Record<string, ErrorKind>

/** A code of a plugin's own: `declareErrors` makes it. */
export type DeclaredCode = string & { readonly declared: unique symbol }

/** A code of `ERRORS`, or one that a plugin has declared. */
export type ErrorCode = keyof typeof ERRORS | DeclaredCode

/** A code that a plugin declares: what listeners make of it, and when it is thrown. */
export interface DeclaredError extends ErrorKind {
  /** When it is thrown, for the reference. */
  text: string
}

/** Codes that plugins have brought into this process; listeners look them up after the table. */
const declared = new Map<string, ErrorKind>()

/**
 * Codes beside those of the table, which `new SvcError` takes from then on and every listener maps to its wire. Name what is returned as `errors` in
 * definePlugin, so that a code of two plugins is refused. @throws Error for a bad code or status, and one that is the kernel's.
 */
export function declareErrors<K extends string>(kinds: Readonly<Record<K, DeclaredError>>): { readonly [C in K]: C & DeclaredCode } {
  for (const [code, { http, grpc }] of Object.entries<DeclaredError>(kinds)) {
    const refused = (why: string) => new Error(`cannot declare error code "${code}": ${why}`)
    if (!/^[A-Z][A-Z0-9_]*$/.test(code)) throw refused('a code is upper case letters, digits and "_", starting with a letter')
    if (Object.hasOwn(ERRORS, code)) throw refused('it is one of the kernel; choose another')
    if (!Number.isInteger(http) || http < 400 || http > 599) throw refused(`the HTTP status ${http} is none of an error; it is 400 to 599`)
    if (!Number.isInteger(grpc) || grpc < 1 || grpc > 16) throw refused(`the gRPC status ${grpc} is none of an error; it is 1 to 16`)
  }
  for (const [code, kind] of Object.entries<DeclaredError>(kinds)) declared.set(code, kind)
  return Object.freeze(Object.fromEntries(Object.keys(kinds).map((code) => [code, code]))) as never
}

/** What a code is to callers, of the table or declared; undefined for what is no code. */
export function errorKind(code: string): ErrorKind | undefined {
  return Object.hasOwn(ERRORS, code) ? ERRORS[code as keyof typeof ERRORS] : declared.get(code)
}

/** Of single points and series: one request may have a million that are refused. And of callers that are not let in, who may ask as often as they like. */
const IN_MASSES: ReadonlySet<string> = new Set([
  'INVALID_POINT',
  'FUTURE_TIMESTAMP',
  'SCHEMA_ERROR',
  'CARDINALITY_EXCEEDED',
  'RATE_LIMITED',
  'UNAUTHORIZED',
  'FORBIDDEN',
])

/** Those that may come in masses have no stack, which costs ten times as much as all else that a refused point does. */
export class SvcError extends Error {
  readonly code: ErrorCode
  /** Members for the answer's body beside error and code, such as the counts of a partial write. */
  readonly detail: Record<string, unknown> | undefined
  /** Headers, or trailing metadata, of the answer: lower case names, such as retry-after in place of the table's. */
  readonly headers: Record<string, string> | undefined

  constructor(code: ErrorCode, message: string, options?: { cause?: unknown; detail?: Record<string, unknown>; headers?: Record<string, string> }) {
    const { stackTraceLimit } = Error
    if (IN_MASSES.has(code)) Error.stackTraceLimit = 0
    super(message, options?.cause === undefined ? undefined : { cause: options.cause })
    Error.stackTraceLimit = stackTraceLimit
    this.name = 'SvcError'
    this.code = code
    this.detail = options?.detail
    this.headers = options?.headers
  }

  get kind(): ErrorKind {
    // One that comes from a thread or a process may be of a plugin that this process does not have.
    return errorKind(this.code) ?? ERRORS.INTERNAL_ERROR
  }
}

/** What any thrown value is to a caller. A full disk anywhere in the chain of causes wins over every other class. */
export function classify(error: unknown): SvcError {
  for (let e = error; e instanceof Error; e = e.cause) {
    const code = (e as NodeJS.ErrnoException).code
    if (e instanceof SvcError && e.code === 'STORAGE_FULL') return e
    if (code === 'ENOSPC' || code === 'EDQUOT') {
      return new SvcError('STORAGE_FULL', 'no space left on the data volume; free space and retry, writes resume without a restart', { cause: error })
    }
  }
  if (error instanceof SvcError) return error
  for (let e = error; e instanceof Error; e = e.cause) if (/^E[MN]FILE$/.test(String((e as NodeJS.ErrnoException).code))) return tooManyFiles(error)
  return new SvcError('INTERNAL_ERROR', error instanceof Error ? error.message : String(error), { cause: error })
}

/** The process has no file handle left: what passes when connections or files are closed, and is nobody's data. */
export function tooManyFiles(cause: unknown): SvcError {
  const text =
    'the server has as many files and connections open as it may; retry in a moment, or start it with a higher limit of open files (ulimit -n, LimitNOFILE)'
  return new SvcError('OVERLOADED', text, { cause, headers: { 'retry-after': '5' } })
}

/** What the log has of an error whose text callers may not read: all that it says with its causes, or its cause alone where that says the same. */
export function logged(error: SvcError): unknown {
  const { cause } = error
  return cause instanceof Error && cause.message === error.message ? cause : error
}

/** The text a caller may read. */
export function publicText(error: SvcError): string {
  return (error.kind as ErrorKind).redact ? `${error.code}: an internal error occurred` : error.message
}
