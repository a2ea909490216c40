export { BucketError, type Bucketing, bucketing, bucketOf, floorMod } from './bucket.ts'
export {
  civilFromDays,
  daysFromCivil,
  daysInMonth,
  fits,
  floorDiv,
  OUT_OF_RANGE,
  type ParsedTime,
  parseInstant,
  parseTime,
} from './instant.ts'
export { fixedLength, foldAscii, parseSpan, type Span } from './span.ts'
export { Zone, zoneOf } from './zone.ts'
