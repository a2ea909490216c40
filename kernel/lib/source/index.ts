/** Work that brings points in by itself: waiting for room, and messages that are acknowledged when their points are durable. */
export { type DeadLetter, type DeadLetterOptions, DeadLetters, requireWhole } from './dead-letters.ts'
export { messageTime } from './message-time.ts'
export { isTransient, type Patience, patiently, TRANSIENT } from './patience.ts'
export { type GiveAgain, Replay, type Replayed, type Unread } from './replay.ts'
export { SampledLog } from './sampled-log.ts'
export { Source } from './source.ts'
export { type TopicMeaning, TopicRules, type TopicRulesOptions } from './topic-rules.ts'
export type { Decoded, SourceHost, SourceMessage, SourceOptions, SourceStatus, SourceWritten } from './types.ts'
