/** What one line may hold. Lengths are bytes of UTF-8 after unescaping. */
export interface LineLimits {
  maxNameBytes: number
  maxTagValueBytes: number
  maxTags: number
  maxFields: number
  maxStringBytes: number
}

export const DEFAULT_LIMITS: LineLimits = {
  maxNameBytes: 256,
  maxTagValueBytes: 1024,
  maxTags: 64,
  maxFields: 1024,
  maxStringBytes: 65536,
}
