/** What /features tells: capabilities by category, under the names that Prometheus gives them (its util/features). */
import { AGGREGATES, FUNCTIONS } from '../functions/signatures.ts'
import { KEYWORDS, OPERATORS } from '../parser/tokens.ts'

type Category = Record<string, boolean>

/** Of Prometheus' `--enable-feature`, those that are always on here. Tools that check rules go by them. */
export const FEATURE_FLAGS =
  'promql-experimental-functions,promql-binop-fill-modifiers,promql-delayed-name-removal,promql-unquoted-utf8-names,promql-duration-expr,promql-extended-range-selectors'

/** Categories of what Prometheus does besides (scraping, rules, its own storage and pages) are left out. */
export function featuresOf(admin: boolean): Record<string, Category> {
  return {
    api: {
      admin,
      label_values_match: true,
      lifecycle: false,
      query_cost: false,
      query_stats: true,
      query_warnings: true,
      search: false,
      time_range_labels: true,
      time_range_series: true,
    },
    promql: sorted({
      ...allOn(KEYWORDS),
      at_modifier: true,
      delayed_name_removal: true,
      duration_expr: true,
      negative_offset: true,
      per_query_lookback_delta: true,
      per_step_stats: false,
      subqueries: true,
      type_and_unit_labels: false,
      unquoted_utf8_names: true,
    }),
    promql_functions: sorted(allOn(FUNCTIONS.keys())),
    promql_operators: sorted({ ...allOn(OPERATORS), ...allOn(Object.keys(AGGREGATES)) }),
  }
}

const allOn = (names: Iterable<string>): Category => Object.fromEntries([...names].map((name) => [name, true]))
const sorted = (category: Category): Category => Object.fromEntries(Object.entries(category).sort(([one], [other]) => (one < other ? -1 : 1)))
