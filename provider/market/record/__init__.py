"""The record of every decision with its inputs, so that an old decision can be explained.

What is written for one decision, and where:

| table | module | what it holds |
|---|---|---|
| `decisions` | `decisions` | one row a decision: order, verdict, price, first reasons, what became of the bid |
| `decision_inputs` | `input_store` | group, provider record, rules, audits and quote; each different value once |
| `capacity_log` | `capacity_log` | the free capacity: a full entry an hour, and the changes after it |

`log` writes all three tables in one transaction, and removes old rows. `decisions` reads them.
"""
