/**
 * What one line may hold. Lengths are bytes of UTF-8 after unescaping. The engine's own limits (`database.max_name_bytes` and its
 * like) decide for each point; the parser's are the most that any engine can be set to, so that no line grows without bound.
 */
export interface LineLimits {
  maxNameBytes: number
  maxTagValueBytes: number
  maxTags: number
  maxFields: number
  maxStringBytes: number
}

export const DEFAULT_LIMITS: LineLimits = {
  maxNameBytes: 4096,
  maxTagValueBytes: 65_536,
  maxTags: 1024,
  maxFields: 1024,
  maxStringBytes: 16_777_216,
}

/** A field that was left out shifts the others by one; so many places ahead are tried before the name is looked up. */
export const LOOK_AHEAD = 3
/** Between two places where a parse can be interrupted: some hundred microseconds, if all series are new. */
export const SLICE_LINES = 64
export const SLICE_BYTES = 65_536
