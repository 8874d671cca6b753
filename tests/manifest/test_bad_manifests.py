"""Every bad manifest in ``data/bad``: exactly these problems, at exactly these places."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_provider.errors import CATALOGUE
from dpone_provider.manifest.read import check_file

BAD = Path(__file__).parent / "data" / "bad"
ROWS = {"yaml": ("M12", "M11"), "selector": ("M1", "M2"), "replay": ("M7",)}
EXPECTED = """
depends_circle 5:24 DPONE_MANIFEST_DEPENDENCY
depends_circle 5:55 DPONE_MANIFEST_DEPENDENCY
depends_unknown 5:48 DPONE_MANIFEST_DEPENDENCY
kind_flow 1:7 DPONE_MANIFEST_KIND
kind_missing 1:1 DPONE_MANIFEST_KIND
kind_unknown 1:7 DPONE_MANIFEST_KIND
name_bad 5:9 DPONE_MANIFEST_NAME
name_taken 5:29 DPONE_MANIFEST_DUPLICATE
quality_acceptance_enabled 2:23 DPONE_ACCEPTANCE_CONFIGURATION
quality_acceptance_mode 2:45 DPONE_ACCEPTANCE_CONFIGURATION
quality_gate_type 2:33 DPONE_QUALITY_CONFIGURATION
quality_unknown 2:17 DPONE_QUALITY_CONFIGURATION
replay_append 4:93 DPONE_ROUTE_UNSUPPORTED
replay_engine 4:198 DPONE_ROUTE_UNSUPPORTED
replay_hook 4:149 DPONE_ROUTE_UNSUPPORTED
replay_no_budget 4:9 DPONE_ROUTE_UNSUPPORTED
replay_other_staging 4:94 DPONE_ROUTE_UNSUPPORTED
replay_target_by_default 5:25 DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED
replay_target_capture 5:59 DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED
replay_ttl_key 4:190 DPONE_ROUTE_UNSUPPORTED
replay_ttl_setting 4:225 DPONE_ROUTE_UNSUPPORTED
root_list 1:1 DPONE_MANIFEST_TYPE
root_unknown_key 2:1 DPONE_MANIFEST_UNKNOWN_KEY
same_target 5:27 DPONE_MANIFEST_DUPLICATE
schemas_empty 2:10 DPONE_MANIFEST_VALUE
schemas_missing 1:1 DPONE_MANIFEST_MISSING_KEY
selector_camel 4:86 DPONE_REPLAY_SELECTOR_MISPLACED
selector_dashes 4:86 DPONE_REPLAY_SELECTOR_MISPLACED
selector_in_metadata 2:12 DPONE_REPLAY_SELECTOR_MISPLACED
selector_in_process 5:3 DPONE_REPLAY_SELECTOR_MISPLACED
selector_in_process_options 5:3 DPONE_MANIFEST_UNKNOWN_KEY
selector_in_process_options 5:13 DPONE_REPLAY_SELECTOR_MISPLACED
selector_in_root 2:1 DPONE_REPLAY_SELECTOR_MISPLACED
selector_in_root_options 2:1 DPONE_MANIFEST_UNKNOWN_KEY
selector_in_root_options 2:11 DPONE_REPLAY_SELECTOR_MISPLACED
selector_in_sink 4:76 DPONE_REPLAY_SELECTOR_MISPLACED
selector_in_source 3:50 DPONE_REPLAY_SELECTOR_MISPLACED
selector_in_source_options 3:60 DPONE_REPLAY_SELECTOR_MISPLACED
selector_list 4:110 DPONE_REPLAY_SELECTOR_TYPE
selector_map 4:110 DPONE_REPLAY_SELECTOR_TYPE
selector_null 4:109 DPONE_REPLAY_SELECTOR_TYPE
selector_number 4:110 DPONE_REPLAY_SELECTOR_TYPE
selector_overridden 4:110 DPONE_REPLAY_SELECTOR_TYPE
selector_plural 4:86 DPONE_REPLAY_SELECTOR_MISPLACED
selector_slip 4:86 DPONE_REPLAY_SELECTOR_MISPLACED
selector_string 4:110 DPONE_REPLAY_SELECTOR_TYPE
selector_yes 4:110 DPONE_REPLAY_SELECTOR_TYPE
sink_budget_boolean 4:105 DPONE_MANIFEST_TYPE
sink_budget_octal 4:105 DPONE_MANIFEST_TYPE
sink_budget_sexagesimal 4:105 DPONE_MANIFEST_TYPE
sink_budget_text 4:105 DPONE_MANIFEST_TYPE
sink_budget_zero 4:105 DPONE_MANIFEST_VALUE
sink_cluster 4:76 DPONE_ROUTE_UNSUPPORTED
sink_column_codec 4:89 DPONE_MANIFEST_VALUE
sink_column_injection 4:89 DPONE_MANIFEST_VALUE
sink_column_unbalanced 4:89 DPONE_MANIFEST_VALUE
sink_engine_other 4:135 DPONE_MANIFEST_VALUE
sink_engine_replicated 4:135 DPONE_ROUTE_UNSUPPORTED
sink_hook 4:76 DPONE_ROUTE_UNSUPPORTED
sink_keep_previous_no 4:101 DPONE_MANIFEST_TYPE
sink_missing 5:9 DPONE_MANIFEST_MISSING_KEY
sink_mode_append 4:93 DPONE_ROUTE_UNSUPPORTED
sink_mode_unknown 4:93 DPONE_MANIFEST_VALUE
sink_name_too_long 4:54 DPONE_MANIFEST_VALUE
sink_order_by_text 4:137 DPONE_MANIFEST_TYPE
sink_order_by_two 4:138 DPONE_MANIFEST_VALUE
sink_partition_ttl 4:141 DPONE_MANIFEST_VALUE
sink_setting_null 4:157 DPONE_MANIFEST_TYPE
sink_type_other 4:16 DPONE_MANIFEST_VALUE
source_connection_address 3:46 DPONE_MANIFEST_VALUE
source_format_unknown 3:32 DPONE_MANIFEST_VALUE
source_null 3:11 DPONE_MANIFEST_TYPE
source_option_type 3:71 DPONE_MANIFEST_TYPE
source_option_unknown 3:60 DPONE_MANIFEST_UNKNOWN_KEY
source_path_credentials 3:43 DPONE_MANIFEST_VALUE
source_path_empty 3:43 DPONE_MANIFEST_VALUE
source_path_template 3:43 DPONE_MANIFEST_TEMPLATE
source_query_insert 3:56 DPONE_MANIFEST_VALUE
source_query_two 3:56 DPONE_MANIFEST_VALUE
source_table_and_query 3:74 DPONE_MANIFEST_CONFLICT
source_type_unknown 3:18 DPONE_MANIFEST_VALUE
table_number 5:24 DPONE_MANIFEST_TYPE
table_twice 5:27 DPONE_MANIFEST_DUPLICATE
tables_empty 5:23 DPONE_MANIFEST_VALUE
yaml_alias_bomb 4:36 DPONE_YAML_ALIAS_EXPANSION
yaml_big_integer 2:15 DPONE_YAML_NUMBER
yaml_binary 2:15 DPONE_YAML_TAG
yaml_control_character 2:17 DPONE_YAML_ENCODING
yaml_duplicate_key 2:24 DPONE_YAML_DUPLICATE_KEY
yaml_empty 1:1 DPONE_YAML_EMPTY
yaml_float_overflow 2:15 DPONE_YAML_NUMBER
yaml_infinite 2:15 DPONE_YAML_NUMBER
yaml_integer_key 2:12 DPONE_YAML_KEY
yaml_list_key 3:5 DPONE_YAML_KEY
yaml_merge_of_text 2:12 DPONE_YAML_MERGE_KEY
yaml_nan 2:15 DPONE_YAML_NUMBER
yaml_not_utf8 2:15 DPONE_YAML_ENCODING
yaml_null_key 2:12 DPONE_YAML_KEY
yaml_only_comment 3:1 DPONE_YAML_EMPTY
yaml_own_tags 2:1 DPONE_YAML_TAG
yaml_python_tag 2:15 DPONE_YAML_TAG
yaml_self_reference 2:22 DPONE_YAML_ALIAS_SELF
yaml_set 2:15 DPONE_YAML_TAG
yaml_surrogate 2:15 DPONE_YAML_ENCODING
yaml_tab 3:1 DPONE_YAML_SYNTAX
yaml_timestamp 2:15 DPONE_YAML_TAG
yaml_too_deep 2:74 DPONE_YAML_DEPTH
yaml_two_documents 6:1 DPONE_YAML_DOCUMENTS
yaml_two_merge_keys 2:38 DPONE_YAML_MERGE_KEY
yaml_unclosed 2:1 DPONE_YAML_SYNTAX
yaml_unknown_alias 2:11 DPONE_YAML_ALIAS_UNKNOWN
yaml_utf16 1:1 DPONE_YAML_ENCODING
yaml_version 2:1 DPONE_YAML_VERSION
yaml_wrong_int_tag 2:15 DPONE_YAML_TAG
"""


def cases() -> list[object]:
    expected: dict[str, list[tuple[int, int, str]]] = {}
    for row in EXPECTED.split("\n"):
        if row:
            name, place, code = row.split()
            line, column = place.split(":")
            expected.setdefault(name, []).append((int(line), int(column), code))
    return [
        pytest.param(name, problems, id=name, marks=pytest.mark.contract(*ROWS.get(name.split("_")[0], ("M11",))))
        for name, problems in expected.items()
    ]


@pytest.mark.parametrize(("name", "expected"), cases())
def test_a_bad_manifest_is_refused_with_place_and_code(name: str, expected: list[tuple[int, int, str]]) -> None:
    """Field report B24 for the ``yaml_`` files: the traps of YAML are refused with line and column."""
    result = check_file(BAD / f"{name}.yaml")
    assert [(problem.line, problem.column, problem.code) for problem in result.problems] == expected
    assert not result.passed
    for problem in result.problems:
        assert problem.code in CATALOGUE
        assert problem.message
        assert problem.remedy
        assert str(problem).startswith(f"{BAD / name}.yaml:{problem.line}:{problem.column}: {problem.code}")


def test_every_bad_manifest_has_its_expectation() -> None:
    named = {row.split()[0] for row in EXPECTED.split("\n") if row}
    assert {path.stem for path in BAD.glob("*.yaml")} == named
