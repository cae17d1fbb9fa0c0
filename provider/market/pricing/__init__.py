"""Where the price of a bid comes from (bidding.md §2, §6). `AP_BID_PRICE_STRATEGY` names the strategy.

| module | what it does |
|---|---|
| `bid_price` | the last step for every strategy: the premium for notice, and the order's maximum |
| `strategy` | builds the strategy that the settings name |
| `scale` | strategy `scale`: amounts per CPU, memory, storage, endpoint and leased IP |
| `random_range` | strategy `randomRange`: a random price above the cost of the memory |
| `script` | strategy `shellScript`: a program of the operator names the price |
| `script_input` | what the program reads |
| `script_run` | runs the program within limits of time and output |
| `script_user` | the user as whom the program runs |
| `script_leftovers` | ends processes that the program leaves running |
| `table` | strategy `table`: a YAML file of prices in USD |
| `table_file` | reads that file |
| `akt_rate` | the price of AKT in USD, for the table |
| `quote` | the question to a strategy and its answer, the same for every strategy |
| `outage` | notices when the strategy names no prices any more |
"""
