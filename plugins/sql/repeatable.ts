/**
 * Which statements one run may answer for several that wait: those whose values do not differ from call to call. A run that has not begun takes its snapshot, and the
 * time that `now()` gives, after all of them have come. So it is enough to know the functions; what is not known here, plugins' functions among them, runs each time.
 */

/** A longer one is not looked at. */
const LONGEST = 8192

/** Functions that give the same for the same rows at the same time, and words that stand before a parenthesis. */
const KNOWN = new Set(
  `abs all and any_value approx_count_distinct approx_quantile arg_max arg_min array_agg as asc avg between bit_and bit_or bool_and bool_or by cast ceil ceiling
   coalesce concat contains count date_diff date_part date_trunc datediff datepart datetrunc desc distinct else epoch epoch_ms epoch_ns epoch_us except exists
   exp extract filter first first_value floor from greatest group having histogram if ifnull in intersect interval join lag last last_value lead least
   left length like ln log log10 log2 lower make_timestamp max max_by mean median min min_by mod mode not now nullif on or order over partition pow power
   quantile quantile_cont quantile_disc rank regexp_matches replace round row_number select sign sqrt stddev stddev_pop stddev_samp strftime substr substring sum then
   time_bucket to_days to_hours to_minutes to_seconds to_timestamp trim trunc try_cast union upper using values var_pop var_samp variance when where with`
    .trim()
    .split(/\s+/),
)

/** Comments hide what stands before a parenthesis; samples of rows are by chance. */
const OTHERS = /--|\/\*|\b(?:table)?sample\b/iu
const SPACE = /\s/u
const NAME = /[\p{L}\p{N}_]/u
const BEFORE = new Set('(,=<>+*%|!-')

/** Words for the time of asking, `now` among them, and for what is no answer about points. Names of columns and texts count too. */
const OF_THE_MOMENT = /\b(?:now|today|tomorrow|yesterday|current_\w+|localtime\w*|explain)\b/iu

/** Of a repeatable statement: whether its answer follows from points alone, and not from the time at which it is asked for. */
export const isTimeless = (query: string): boolean => !OF_THE_MOMENT.test(query)

/** Looks at what stands before each parenthesis, in time linear in the text. Names in strings count too: it is not worth telling them apart. */
export function isRepeatable(query: string): boolean {
  if (query.length > LONGEST || OTHERS.test(query)) return false
  for (let open = query.indexOf('('); open >= 0; open = query.indexOf('(', open + 1)) {
    let end = open
    while (end > 0 && SPACE.test(query[end - 1])) end--
    let start = end
    while (start > 0 && NAME.test(query[start - 1])) start--
    if (start < end ? !KNOWN.has(query.slice(start, end).toLowerCase()) : end > 0 && !BEFORE.has(query[end - 1])) return false
  }
  return true
}
